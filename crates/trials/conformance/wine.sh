# program: wine (64 bits)
# packages: wine wine64 python3
# Windows' ping: four requests, a second apart. What wine does when it begins is done before.
export WINEPREFIX="$PWD/prefix" WINEDEBUG=-all HOME="$PWD"
mkdir prefix
wineserver -p
wine cmd /c ver >/dev/null 2>&1
/usr/bin/python3 - <<'END'
import subprocess, time
began = time.monotonic()
quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
subprocess.run(['wine', 'ping', '-n', '4', '127.0.0.1'], check=True, **quiet)
print(3000, int((time.monotonic() - began) * 1000), 'ping')
END
wineserver -k
