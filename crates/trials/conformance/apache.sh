# program: Apache httpd (keepalive time-out)
# packages: apache2-bin python3
m=/usr/lib/apache2/modules
cat >c <<C
ServerRoot "$PWD"
PidFile a.pid
ServerName x
Listen 127.0.0.1:18080
LoadModule mpm_event_module $m/mod_mpm_event.so
LoadModule authz_core_module $m/mod_authz_core.so
ErrorLog err
KeepAlive On
KeepAliveTimeout 1
DocumentRoot "$PWD"
User nobody
Group nogroup
Mutex posixsem
C
chmod 755 .; echo x >index.html
apache2 -f "$PWD/c" -DFOREGROUND & n=$!
python3 "$(dirname "$0")/until-closed.py" 18080 'GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n' \
  995 'KeepAliveTimeout of 1 s'
kill $n; wait $n || :
