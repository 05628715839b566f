# Makes images of programs of this machine, as their makers publish them: a web server, a cache, a database. Each is an
# archive as `docker save` writes it, under the name HOST/shop/NAME:1.
#
#   make.sh HOST DIRECTORY
set -eu
host=$1
cd "$2"
postgresql=$(echo /usr/lib/postgresql/*/bin/postgres | tr ' ' '\n' | tail -n 1)
postgresql=${postgresql%/bin/postgres}
version=${postgresql##*/}

# put NAME PATH…: files of this machine, with the libraries of those that are programs.
put() {
  name=$1
  shift
  mkdir -p "$name/bin" "$name/etc" "$name/lib64" "$name/usr/lib" "$name/dev" "$name/proc" "$name/sys" "$name/tmp"
  chmod 1777 "$name/tmp"
  for path in "$@" $(ldd "$@" 2>/dev/null | grep -o '/[^ ]*' | grep -v ':$' | sort -u); do
    mkdir -p "$name$(dirname "$path")"
    cp -rLn "$path" "$name$path"
  done
}

# image NAME CONFIG: what was put there.
image() {
  cp /bin/busybox "$1/bin/busybox"
  for tool in sh cat grep mkdir test; do ln -sf busybox "$1/bin/$tool"; done
  tar -C "$1" -cf "$1.layer" .
  printf '{"architecture":"amd64","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$2" "$(sha256sum "$1.layer" | cut -d' ' -f1)" >config.json
  printf '[{"Config":"config.json","RepoTags":["%s/shop/%s:1"],"Layers":["%s.layer"]}]' "$host" "$1" "$1" >manifest.json
  mkdir -p archives
  tar -cf "archives/$1.tar" manifest.json config.json "$1.layer"
  rm -r "$1" "$1.layer"
}

put web /usr/sbin/nginx
mkdir -p web/etc/nginx web/var/log/nginx web/var/lib/nginx web/srv
echo 'root:x:0:0::/:/bin/sh' >web/etc/passwd
echo 'root:x:0:' >web/etc/group
echo 'user root; events {} http { server { listen 80; root /srv; } }' >web/etc/nginx/nginx.conf
echo welcome >web/srv/index.html
image web '{"Cmd":["/usr/sbin/nginx","-g","daemon off;"],"ExposedPorts":{"80/tcp":{}},"StopSignal":"SIGQUIT"}'

put cache /usr/bin/redis-server /usr/bin/redis-cli
mkdir -p cache/data
printf 'root:x:0:0::/:/bin/sh\nredis:x:999:999::/data:/bin/sh\n' >cache/etc/passwd
printf 'root:x:0:\nredis:x:999:\n' >cache/etc/group
chown 999:999 cache/data
image cache '{"Entrypoint":["/usr/bin/redis-server","--protected-mode","no"],"Cmd":["--save",""],"User":"redis",
  "WorkingDir":"/data","ExposedPorts":{"6379/tcp":{}}}'

put db "$postgresql/bin/postgres" "$postgresql/bin/initdb" "$postgresql/lib/plpgsql.so" \
  "$postgresql/lib/dict_snowball.so" "/usr/share/postgresql/$version" /usr/share/zoneinfo/Etc
mkdir -p db/data
printf 'root:x:0:0::/:/bin/sh\npostgres:x:998:998::/data:/bin/sh\n' >db/etc/passwd
printf 'root:x:0:\npostgres:x:998:\n' >db/etc/group
chown 998:998 db/data
cat >db/start <<'END'
#!/bin/sh
set -e
[ -n "$POSTGRES_PASSWORD" ] || { echo "POSTGRES_PASSWORD is not set" >&2; exit 1; }
if [ ! -e "$PGDATA/PG_VERSION" ]; then initdb --auth trust --no-locale --encoding UTF8 --no-sync >/dev/null; fi
exec "$@"
END
chmod 755 db/start
image db '{"Entrypoint":["/start"],"Cmd":["postgres","-c","listen_addresses=*","-k","/tmp"],"User":"postgres",
  "Env":["PATH='"$postgresql"'/bin:/bin","PGDATA=/data/files"],"ExposedPorts":{"5432/tcp":{}},"StopSignal":"SIGINT"}'
