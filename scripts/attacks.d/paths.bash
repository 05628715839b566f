# Attacks by other users of the machine: what they put where root reads and writes. `nobody` is one of them.

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
# The results' folder is a link of somebody else's.
results_behind_a_link_of_others() {
  mkdir theirs target && chown 65534 theirs && as_nobody ln -s "$PWD/target" theirs/link
  experiment true
  timeout 100 "$diorama" run lab --wait --variant baseline --out theirs/link/out
  [ $? = 2 ] || [ ! -e target/out/result.json ]
}
# By sudo: an experiment of the caller's that is a link to root's file, which a message would show.
an_experiment_that_is_a_link() {
  mkdir theirs && printf 'TOP-SECRET: yes\n' >root.yaml && chmod 600 root.yaml && ln root.yaml theirs/experiment.yaml
  chown 65534 theirs
  SUDO_UID=65534 SUDO_GID=65534 timeout 20 "$diorama" check theirs >said 2>&1
  cat said; ! grep -q SECRET said
}
# By sudo: a file of root's in a folder of the caller's, copied into a node.
a_file_of_roots_among_ones_own() {
  experiment 'cat /x' 'files: { /x: secret }'
  echo TOP-SECRET >lab/secret && chmod 600 lab/secret && chown 65534 lab lab/experiment.yaml
  SUDO_UID=65534 SUDO_GID=65534 run
  ! grep -rq TOP-SECRET out
}
# A root of somebody's own shows what he could not read.
a_root_that_holds_a_file_of_roots() {
  mkdir -p root/bin root/lib64 root/lib/x86_64-linux-gnu root/closed
  cp /bin/cat /bin/sh root/bin/ && cp /lib64/ld-linux-x86-64.so.2 root/lib64/
  cp /lib/x86_64-linux-gnu/libc.so.6 root/lib/x86_64-linux-gnu/
  chown -R 65534 root && echo TOP-SECRET >root/secret && chmod 600 root/secret
  echo TOP-SECRET >root/closed/secret && chown 0:0 root/closed && chmod 700 root/closed
  experiment 'cat /secret /closed/secret; echo ALL' 'root: ../root'
  run; grep -rq ALL out/nodes && ! grep -rq TOP-SECRET out/nodes
}
# A socket that root is to make and remove, in a folder of others'.
a_socket_behind_a_link_of_others() {
  mkdir theirs target && chown 65534 theirs && as_nobody ln -s "$PWD/target" theirs/link
  timeout 60 "$diorama" dilate --tdf 2 --control theirs/link/socket -- ls -A target >said 2>&1
  cat said; grep -q 'symbolic link of another user' said && ! grep -q socket$ said && [ -z "$(ls -A target)" ]
}
# Results of one who called by sudo are his.
results_that_the_caller_cannot_remove() {
  experiment true
  SUDO_UID=65534 SUDO_GID=65534 run && [ -z "$(find out -not -uid 65534)" ]
}
for one in results_behind_a_link_of_others an_experiment_that_is_a_link a_file_of_roots_among_ones_own \
  a_root_that_holds_a_file_of_roots a_socket_behind_a_link_of_others results_that_the_caller_cannot_remove; do
  attack "$one"
done
