# Faults: signals at bad moments, and damaged state.

a_script_is_read_when_it_is_to_end() { echo 'while {1} {}' >a.ns; ended_by TERM 1 "$diorama" run a.ns --out out; }
int_while_a_script_is_read() { echo 'while {1} {}' >a.ns; ended_by INT 1 "$diorama" run a.ns --out out; }
an_image_is_unpacked_when_it_is_to_end() {
  image '0 a 400000000' '0 b 100000000'
  experiment 'sleep 60' 'root: ../image.tar'
  ended_by TERM 1.5 "$diorama" run lab --wait --variant baseline --out out
}
nodes_are_made_when_it_is_to_end() {
  experiment 'sleep 60' 'count: 100'
  sed -i 's/speed: 0.3/speed: 0.002/; s/128MiB/16MiB/; s/exited: .a., //' lab/experiment.yaml
  ended_by TERM 2 "$diorama" run lab --wait --variant baseline --out out
}
# A gigabyte of rows is read when it is to end.
rows_are_read_when_it_is_to_end() {
  local signal since code n
  for signal in INT TERM; do
    experiment 'yes 1 | head -c 1000000000 >/out/log'
    echo 'metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }' >>lab/experiment.yaml
    sed -i 's/limit: 60s/limit: 200s/; s/speed: 0.3/speed: 0.7/' lab/experiment.yaml
    env --default-signal=INT,TERM "$diorama" run lab --wait --variant baseline --out "out$signal" >said 2>&1 &
    for n in $(seq 2800); do ! grep -q collecting said || break; sleep 0.1; done
    since=${EPOCHREALTIME/./} code=0
    kill -s $signal $!
    wait $! || code=$?
    since=$((${EPOCHREALTIME/./} - since))
    cat said; echo "exit code $code after $since us"
    [ "$code" = 130 ] && [ "$since" -lt "$most" ] && [ -s "out$signal/result.json" ] || return 1
  done
}
# What is damaged is named, and can be removed.
an_image_that_is_damaged() {
  local at=/var/lib/diorama/images/attack-damaged code=0
  mkdir -p "$at" && echo '{"name":' >"$at/image.json"
  "$diorama" image list >said 2>&1 || code=1
  cat said; grep -q 'attack-damaged is damaged' said || code=1
  "$diorama" image remove attack-damaged || code=1
  [ ! -e "$at" ] || { rm -rf "$at"; code=1; }
  return $code
}
a_queue_that_is_damaged() {
  head -c 10000 /dev/urandom >queue
  refused 'queue' "$diorama" batch list --queue queue
}
for one in a_script_is_read_when_it_is_to_end int_while_a_script_is_read an_image_is_unpacked_when_it_is_to_end \
  nodes_are_made_when_it_is_to_end rows_are_read_when_it_is_to_end an_image_that_is_damaged a_queue_that_is_damaged; do
  attack "$one"
done
