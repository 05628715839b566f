# program: HAProxy
# packages: haproxy python3
printf 'defaults\n mode http\n timeout client 300ms\n timeout server 5s\n timeout connect 1s\n timeout http-request 300ms\nfrontend f\n bind 127.0.0.1:18081\n http-request return status 200\n' >c
haproxy -db -f c & n=$!
python3 "$(dirname "$0")/until-closed.py" 18081 'GET / HT' 295 'http-request time-out of 300 ms'
kill $n; wait $n || :
