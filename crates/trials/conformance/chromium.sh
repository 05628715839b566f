# program: Chromium, headless, in its sandbox
# packages: chromium python3
exec python3 "$(dirname "$0")/browser.py" chromium chromium --headless --disable-gpu --no-first-run \
	--disable-dev-shm-usage --user-data-dir={profile} {url}
