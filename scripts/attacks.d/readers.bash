# Attacks by what is read: experiments, Compose files, scripts, images, catalogues, records.

# A text of 900 KB, 20,000 times by an alias.
aliases_of_a_long_text() {
  { printf 'name: x\na: &x "'; head -c 900000 /dev/zero | tr '\0' y; printf '"\nb: ['
    yes '*x,' | head -n 20000 | tr -d '\n'; echo ']'; } >a.yaml
  refused 'MiB of text' "$diorama" check a.yaml
}
# Lists of ten aliases of lists of ten aliases ….
aliases_of_aliases() {
  { echo 'a0: &a0 [x,x,x,x,x,x,x,x,x,x]'
    for n in $(seq 1 20); do echo "a$n: &a$n [$(yes "*a$((n - 1))" | head -n 10 | paste -sd,)]"; done; } >a.yaml
  refused 'values' "$diorama" check a.yaml
}
# Half a million brackets.
a_file_that_is_deep() {
  { printf 'a: '; head -c 500000 /dev/zero | tr '\0' '['; } >a.yaml
  refused 'deep\|recursion' "$diorama" check a.yaml
}
# Opening it would wait for ever.
a_file_that_is_a_pipe() { mkfifo experiment.yaml && refused 'not a file' "$diorama" check .; }
# As many nodes as a number can say.
more_nodes_than_there_are_numbers() {
  experiment true 'count: 4000000000'
  refused 'count' "$diorama" check lab
}
# A pattern whose automaton has a thousand million states.
a_pattern_that_grows() {
  experiment true
  cat >>lab/experiment.yaml <<'END'
metrics: { x: { nodes: a, line: "((((a{1,100}){1,100}){1,100}){1,100})", from: stdout, combine: sum, unit: s } }
END
  refused 'pattern\|large\|size' "$diorama" check lab
}
# Defaults of variables in one another: as deep as the line is long.
variables_in_variables() {
  { printf 'services: { a: { image: "'; yes '${A:-' | head -n 100000 | tr -d '\n'
    yes '}' | head -n 100000 | tr -d '\n'; echo '" } }'; } >compose.yaml
  refused 'levels deep' "$diorama" convert compose.yaml
}
# Each setting is the one before, twice.
settings_that_double() {
  echo 'services: { a: { image: x, command: "$Z" } }' >compose.yaml
  { echo A0=xxxxxxxxxx; for n in $(seq 1 60); do echo "A$n=\$A$((n - 1))\$A$((n - 1))"; done; echo 'Z=$A60'; } >.env
  refused 'MiB' "$diorama" convert compose.yaml
}
# Each file includes the next one, twice, by two names.
files_that_include_each_other_twice() {
  echo 'services: { a: { image: x } }' >c20.yaml; ln -s c20.yaml d20.yaml
  for n in $(seq 19 -1 0); do
    echo "include: [c$((n + 1)).yaml, d$((n + 1)).yaml]" >"c$n.yaml"
    ln -s "c$n.yaml" "d$n.yaml"
  done
  refused 'files are read' "$diorama" convert c0.yaml
}
# A file of settings that is a link to root's.
settings_that_lead_out() {
  ln -s /etc/shadow secret.env
  echo 'services: { a: { image: x, env_file: secret.env } }' >compose.yaml
  refused 'leads out' "$diorama" convert compose.yaml && ! grep -q 'root:' said
}
# An ns script without an end; with all of memory; with all of the disk.
a_script_without_an_end() {
  echo 'while {1} {}' >a.ns
  refused 'come to an end' "$diorama" check a.ns
}
a_script_that_only_grows() {
  echo 'while {1} { lappend a [string repeat x 100000] }' >a.ns
  refused 'more memory\|come to an end' "$diorama" check a.ns
}
a_script_that_only_prints() {
  echo 'while {1} { puts [string repeat x 100000] }' >a.ns
  refused 'MiB\|end' "$diorama" check a.ns
}
# A script that looks around.
a_script_that_reads_files() {
  echo 'puts [read [open /etc/shadow]]' >a.ns
  refused 'a.ns:1' "$diorama" check a.ns && ! grep -q 'root:' said
}
a_script_that_executes() {
  echo 'exec touch /tmp/attack-was-here' >a.ns
  refused 'a.ns:1' "$diorama" check a.ns && [ ! -e /tmp/attack-was-here ]
}

# image ENTRY…: image.tar of one compressed layer, by perl: `KIND NAME LENGTH` of zeros, or of a link's target.
image() {
  perl -e 'use strict; my @made;
    sub head { my ($name, $kind, $length, $to) = @_;
      my $h = pack("a100a8a8a8a12a12a8a1a100a8a247", $name, "0000644\0", "0000000\0", "0000000\0",
        sprintf("%011o\0", $length), "00000000000\0", " " x 8, $kind, $to, "ustar  \0", "");
      substr($h, 148, 8) = sprintf("%06o\0 ", unpack("%32C*", $h)); $h }
    sub whole { my ($name, $text) = @_; head($name, "0", length $text, "") . $text . "\0" x (-length($text) % 512) }
    open my $z, "|-", "gzip -1 >layer" or die;
    for (@ARGV) { my ($kind, $name, $rest) = split / /; my $link = $kind =~ /[12]/;
      print $z head($name, $kind, $link ? 0 : $rest, $link ? $rest : "");
      my $left = $link ? 0 : int(($rest + 511) / 512) * 512;
      while ($left > 0) { my $now = $left < 1 << 20 ? $left : 1 << 20; print $z "\0" x $now; $left -= $now } }
    print $z "\0" x 1024; close $z;
    open my $l, "<", "layer"; local $/; my $layer = <$l>;
    open my $o, ">", "image.tar";
    my $config = q({"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}});
    print $o whole("manifest.json", q([{"Config":"c.json","Layers":["layer.tar"]}])), whole("c.json", $config),
      whole("layer.tar", $layer), "\0" x 1024' -- "$@"
}
image_run() {
  experiment true "root: ../image.tar"
  refused "$1" "$diorama" run lab --wait --variant baseline --out out
}
# Zeros that compress a thousand times; a name that does; a name behind a file of the same size.
a_layer_of_zeros() { image '0 big 900000000'; image_run '200 times more'; }
a_name_of_400_megabytes() { image 'L long 400000000'; image_run 'too long'; }
records_of_400_megabytes() { image 'x long 400000000'; image_run 'too long'; }
# Out of the image by its own names and links.
a_layer_that_leads_out() {
  image '2 up /tmp' '0 up/attack-was-here 5' '0 ../../../../tmp/attack-was-here 5'
  image_run 'layer' ; [ ! -e /tmp/attack-was-here ]
}
# A record that is as deep as it is long, and one that is not there.
a_record_that_is_deep() {
  mkdir r && head -c 900000 /dev/zero | tr '\0' '[' >r/result.json
  refused 'result.json\|no run' "$diorama" compare r r
}
for one in aliases_of_a_long_text aliases_of_aliases a_file_that_is_deep a_file_that_is_a_pipe \
  more_nodes_than_there_are_numbers a_pattern_that_grows variables_in_variables settings_that_double \
  files_that_include_each_other_twice settings_that_lead_out a_script_without_an_end a_script_that_only_grows \
  a_script_that_only_prints a_script_that_reads_files a_script_that_executes a_layer_of_zeros a_name_of_400_megabytes \
  records_of_400_megabytes a_layer_that_leads_out a_record_that_is_deep; do
  attack "$one"
done
