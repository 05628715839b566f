# Run by the guest's first program: a page of 20 kB, served for ever.
mkdir /www
head -c 20000 /dev/zero | tr '\0' x >/www/page
echo "serving on $(uname -m) as $(hostname)"
httpd -f -p 80 -h /www
