# program: C, dynamic, glibc
# packages: gcc libc6-dev
${CC:-cc} -O2 -pthread -o w "$(dirname "$0")/waits.c" && echo - && exec ./w
