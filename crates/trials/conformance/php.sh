# program: PHP
# packages: php-cli
exec php -r '
$s = hrtime(true); usleep(200000); printf("200 %d usleep\n", (hrtime(true) - $s) / 1e6);
$s = microtime(true); time_nanosleep(0, 200000000); printf("200 %d time_nanosleep\n", (microtime(true) - $s) * 1000);
$p = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); $r = [$p[0]]; $w = $e = null;
$s = hrtime(true); stream_select($r, $w, $e, 0, 200000); printf("200 %d stream_select\n", (hrtime(true) - $s) / 1e6);'
