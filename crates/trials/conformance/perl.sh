# program: Perl
# packages: perl
exec perl -MTime::HiRes=time,sleep,alarm -e '
$s = time; sleep 0.2; printf "200 %d sleep\n", (time - $s) * 1000;
$s = time; select(undef, undef, undef, 0.2); printf "200 %d select\n", (time - $s) * 1000;
$s = time; eval { local $SIG{ALRM} = sub { die "alarm\n" }; alarm 0.2; sleep 5 };
printf "200 %d alarm\n", (time - $s) * 1000;'
