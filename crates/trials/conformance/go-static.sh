# program: Go, static
# packages: golang-go
d=$(dirname "$0")
export GOCACHE="$PWD/cache" PATH="$PATH:/usr/local/go/bin"
CGO_ENABLED=0 go build -o w "$d/waits.go" && echo - && exec ./w
