# program: Go, dynamic (cgo)
# packages: golang-go
d=$(dirname "$0")
export GOCACHE="$PWD/cache" PATH="$PATH:/usr/local/go/bin"
CGO_ENABLED=1 go build -o w "$d/waits.go" "$d/cgo.go" && echo - && exec ./w
