# program: C, static, musl
# packages: musl-tools
musl-gcc -O2 -static -pthread -o w "$(dirname "$0")/waits.c" && echo - && exec ./w
