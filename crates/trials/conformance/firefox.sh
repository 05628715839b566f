# program: Firefox, headless, in its sandbox
# packages: firefox-esr python3
exec python3 "$(dirname "$0")/browser.py" firefox firefox-esr --headless --no-remote --profile {profile} {url}
