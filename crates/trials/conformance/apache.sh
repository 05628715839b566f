# program: Apache httpd (keepalive time-out)
# packages: apache2-bin python3
m=/usr/lib/apache2/modules
printf 'ServerRoot "%s"\nPidFile a.pid\nServerName x\nListen 127.0.0.1:18080\nLoadModule mpm_event_module %s/mod_mpm_event.so\nLoadModule authz_core_module %s/mod_authz_core.so\nErrorLog err\nKeepAlive On\nKeepAliveTimeout 1\nDocumentRoot "%s"\nUser nobody\nGroup nogroup\nMutex posixsem\n' "$PWD" $m $m "$PWD" >c
chmod 755 .; echo x >index.html
apache2 -f "$PWD/c" -DFOREGROUND & n=$!
python3 "$(dirname "$0")/until-closed.py" 18080 'GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n' 995 'KeepAliveTimeout of 1 s'
kill $n; wait $n || :
