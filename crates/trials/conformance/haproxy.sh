# program: HAProxy
# packages: haproxy python3
cat >c <<C
defaults
 mode http
 timeout client 300ms
 timeout server 5s
 timeout connect 1s
 timeout http-request 300ms
frontend f
 bind 127.0.0.1:18081
 http-request return status 200
C
haproxy -db -f c & n=$!
python3 "$(dirname "$0")/until-closed.py" 18081 'GET / HT' 295 'http-request time-out of 300 ms'
kill $n; wait $n || :
