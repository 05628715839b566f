# program: bash, coreutils
# packages: bash coreutils
bash -c 's=${EPOCHREALTIME/./}; read -t 0.2 <> <(:); sleep 0.2; e=${EPOCHREALTIME/./}
  echo 400 $(( (e - s) / 1000 )) read -t, sleep'
s=$(date +%s%3N); timeout 0.2 sleep 5; e=$(date +%s%3N); echo 200 $((e - s)) timeout
