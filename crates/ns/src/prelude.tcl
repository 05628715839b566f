# What an ns script runs in: its own interpreter, safe (no files, no programs, no network), with the objects of ns and
# the commands of Netbed. They build nothing: each call is written to standard output, as a line of JSON, with the line
# of the script that it stands in, and all that it means is decided by who reads that.
#
# Usage: tclsh prelude.tcl SCRIPT FOLDER COMMANDS SECONDS PRECISE
# SCRIPT is the file to run; FOLDER holds it and whatever else it may source; COMMANDS are the names of Netbed's own
# commands; after SECONDS the script is ended; with PRECISE 1, the line that is about to run is told all the time.

lassign $argv script folder commands seconds precise
fconfigure stdout -encoding utf-8 -translation lf -buffering full

proc json {text} {
    set text [string map {\\ \\\\ \" \\\" \n \\n \r \\r \t \\t} $text]
    if {![regexp {[^ -~]} $text]} { return "\"$text\"" }
    set out ""
    foreach c [split $text ""] {
        scan $c %c code
        append out [expr {$code < 32 || $code > 126 ? [format \\u%04x [expr {$code & 0xffff}]] : $c}]
    }
    return "\"$out\""
}

# Writes one record: what it is, the file and line of the script, and words.
proc emit {kind where words} {
    lassign $where file line
    set out "\[[json $kind],[json $file],$line"
    foreach word $words { append out , [json $word] }
    puts "$out\]"
}

set child [interp create -safe]

# Another file of the folder, by its name in it.
proc included {child folder where name} {
    if {[file tail $name] eq "tb_compat.tcl"} { return }
    set path [file join $folder $name]
    if {[file pathtype $name] ne "relative" || ".." in [file split $name] || ![file isfile $path]} {
        error "there is no file `$name` beside the script: `source` reads files of that folder whose names end in\
            .ns or .tcl"
    }
    return [interp invokehidden $child -global source $path]
}

proc forbidden {what args} {
    error "`$what` is not for scripts: they describe an experiment, and reach no files, programs or networks"
}

interp alias $child ::diorama::emit {} emit
interp alias $child ::diorama::included {} included $child $folder
foreach name {open exec socket file glob cd pwd load unload fconfigure fblocked gets read seek tell close eof fileevent
        flush chan fcopy pid vwait update after} {
    interp alias $child ::$name {} forbidden $name
}

interp eval $child [list namespace eval ::diorama [list variable folder $folder]]
interp eval $child [list namespace eval ::diorama [list variable commands $commands]]
# What scripts read of Emulab's own variables.
interp eval $child [list namespace eval ::GLOBALS [list variable pid diorama]]
interp eval $child [list namespace eval ::GLOBALS [list variable gid diorama]]
interp eval $child [list namespace eval ::GLOBALS [list variable eid [file rootname [file tail $script]]]]
interp eval $child {
namespace eval ::diorama {
    variable classes           ;# By object: its class.
    variable values            ;# By object and variable: what was set of it.
    variable last {}           ;# The object made last, until it has a name.
    variable counter 0         ;# Of objects that nobody has named.
    variable procs             ;# By procedure: the line at which it begins.
    array set classes {}
    array set values {}
    array set procs {}
    # Methods that make an object: its class, and what it is called until a variable names it.
    variable makes
    array set makes {
        Simulator,node           {Node tbnode-n}
        Simulator,nsenode        {Node tbnode-n}
        Simulator,duplex-link    {Link tblink-l}
        Simulator,simplex-link   {Link tblink-l}
        Simulator,make-lan       {Lan tblan-lan}
        Simulator,newLan         {Lan tblan-lan}
        Simulator,make-cloud     {Lan tblan-lan}
        Simulator,make-san       {Lan tblan-lan}
        Simulator,link           {SimplexLink tbsl-}
        Simulator,lanlink        {LanLink tbll-}
        Simulator,create-connection {Agent/ tbagent-}
        Simulator,event-sequence {EventSequence tbseq-seq}
        Simulator,event-timeline {EventTimeline tbtl-tl}
        Simulator,event-group    {EventGroup tbgrp-}
        SimplexLink,queue        {Queue tbq-}
        Link,queue               {Queue tbq-}
        LanLink,queue            {Queue tbq-}
        Node,program-agent       {Program tbprog-}
        Node,start-command       {Program tbprog-}
        Node,console             {Console tbcon-}
    }

    # The file and line of the script that is being run.
    proc where {} {
        variable folder
        for {set i [expr {[info frame] - 1}]} {$i > 0} {incr i -1} {
            set frame [info frame $i]
            if {[dict get $frame type] ne "source"} continue
            set file [dict get $frame file]
            # This very file is in the folder, too.
            if {[string match "$folder/*" $file] && ![string match */.prelude $file]} {
                return [list $file [dict get $frame line]]
            }
        }
        return {{} 0}
    }

    proc make {class prefix} {
        variable classes
        variable counter
        variable last
        set id $prefix[incr counter]
        set classes($id) $class
        interp alias {} ::$id {} ::diorama::call $id
        set last $id
        return $id
    }

    # Gives the object made last the name of the variable that it is put into, as ns does; the value of the variable.
    proc christen {variable value} {
        variable last
        variable classes
        if {$last eq {} || $value ne $last || ![info exists classes($value)]} { return $value }
        set name [string trim [regsub -all {[^-0-9A-Za-z]+} [string map {:: {}} $variable] -] -]
        if {$name eq {}} { return $value }
        set last {}
        if {[info commands ::$name] ne {}} {
            if {[info exists classes($name)]} {
                error "there is already an object called `$name`: objects are called like the variable that they are put\
                    into first; use another variable"
            }
            # A command of Tcl: the variable goes on naming the object by its number.
            emit name [where] [list $value $name]
            return $value
        }
        emit name [where] [list $value $name]
        set classes($name) $classes($value)
        interp alias {} ::$name {} ::diorama::call $name
        return $name
    }

    # Any method of any object.
    proc call {object args} {
        variable classes
        variable makes
        variable values
        variable last
        set class $classes($object)
        set method [lindex $args 0]
        if {$method eq "set"} {
            switch [llength $args] {
                2 {
                    set key $object,[lindex $args 1]
                    if {![info exists values($key)]} {
                        error "`$object` has no variable `[lindex $args 1]` that was set before"
                    }
                    return $values($key)
                }
                3 { set values($object,[lindex $args 1]) [lindex $args 2] }
            }
        }
        if {$class eq "Simulator"} {
            switch -- $method {
                at { return [timed $object [lindex $args 1] [lindex $args 2] [llength $args]] }
                event-sequence { return [sequence $object [lindex $args 1] [lindex $args 2]] }
                make-simulated {
                    emit call [where] [list {} $object make-simulated 1]
                    set result [uplevel 1 [lindex $args 1]]
                    emit call [where] [list {} $object make-simulated 0]
                    return $result
                }
            }
        }
        if {$class eq "EventTimeline" && $method eq "at"} {
            return [timed $object [lindex $args 1] [lindex $args 2] [llength $args]]
        }
        if {$class eq "EventSequence" && $method eq "append"} {
            emit step [where] [concat [list $object] [lindex $args 1]]
            return
        }
        set made {}
        if {[info exists makes($class,$method)]} {
            set before $last
            set made [make {*}$makes($class,$method)]
            if {[lindex $makes($class,$method) 0] in {SimplexLink LanLink Queue}} { set last $before }
        }
        # What sends over an agent, whatever kind of agent that is.
        if {$method eq "attach-app" && [string match Agent/* $class]} {
            set made [make Application/[lindex $args 1] tbapp-]
        }
        emit call [where] [concat [list $made $object] $args]
        return $made
    }

    # Events at a time: each of them as a list of words.
    proc timed {object time text count} {
        if {$count != 3} { error "wrong number of words: write `\$ns at TIME \"\$OBJECT WHAT\"`" }
        foreach event [split $text ";\n"] {
            set event [string trim $event]
            if {$event eq {} || [string index $event 0] eq "#"} continue
            emit at [where] [concat [list $object $time] [lrange $event 0 end]]
        }
    }

    proc sequence {object text catch} {
        set made [make EventSequence tbseq-seq]
        emit call [where] [list $made $object event-sequence]
        if {$catch ne {}} { emit step [where] [list $made catch] }
        foreach line [split $text "\n"] {
            set line [string trim $line]
            if {$line eq {} || [string index $line 0] eq "#"} continue
            emit step [where] [concat [list $made] [uplevel 2 [concat list $line]]]
        }
        return $made
    }

    proc command {name args} {
        set made {}
        if {$name eq "tb-set-node-startcmd"} { set made [make Program tbprog-] }
        emit tb [where] [concat [list $made $name] $args]
        return $made
    }
    foreach name $commands { interp alias {} ::$name {} ::diorama::command $name }
}

proc new {class args} {
    set prefix [string map {/ -} $class]-
    set made [::diorama::make $class $prefix]
    ::diorama::emit new [::diorama::where] [concat [list $made $class] $args]
    return $made
}
proc Class {args} {
    error "classes of OTcl are not known here: use procedures"
}
proc puts {args} {
    ::diorama::emit puts [::diorama::where] [list [lindex $args end]]
}
proc exit {args} {
    ::diorama::emit exit [::diorama::where] $args
    return -code error -errorcode {DIORAMA EXIT} "exit"
}
proc source {name} {
    return [::diorama::included [::diorama::where] $name]
}
proc unknown {name args} {
    error "there is no command `$name`"
}
rename ::proc ::diorama::proc
::diorama::proc ::proc {name arguments body} {
    if {[info exists ::diorama::classes($name)] || $name in $::diorama::commands} {
        error "`$name` is an object or a command of Netbed: call the procedure something else"
    }
    ::diorama::emit proc [::diorama::where] [list $name]
    uplevel 1 [list ::diorama::proc $name $arguments $body]
}
rename ::set ::diorama::set
::diorama::proc ::set {name args} {
    switch [llength $args] {
        0 { return [uplevel 1 [list ::diorama::set $name]] }
        1 {
            ::diorama::set value [lindex $args 0]
            # Programs have what is in this array in their environment.
            if {[regexp {^(?:::)?opt\(([-_0-9a-zA-Z]+)\)$} $name all option]} {
                ::diorama::emit opt [::diorama::where] [list $option $value]
            }
            if {$::diorama::last ne {}} {
                ::diorama::set base [lindex [split $name (] 0]
                # Outside of procedures there is no call; a file that is read is at a level of its own all the same.
                ::diorama::set outside [expr {[catch {uplevel 1 {info level 0}} caller] || $caller eq {}}]
                if {$outside || [string match ::* $name] || [info globals $base] ne {}} {
                    ::diorama::set value [::diorama::christen $name $value]
                }
            }
            return [uplevel 1 [list ::diorama::set $name $value]]
        }
        default { error "wrong # args: should be \"set varName ?newValue?\"" }
    }
}
}

interp limit $child time -seconds [expr {[clock seconds] + $seconds}]
# With PRECISE: a record before each command of another line, so that what killed this process can be found.
interp alias $child ::diorama::flush {} flush stdout
if {$precise} {
    interp eval $child {
        ::diorama::proc ::diorama::step {args} {
            variable at
            ::diorama::set now [where]
            if {[lindex $now 1] && (![info exists at] || $now ne $at)} {
                emit line $now {}
                flush
            }
            ::diorama::set at $now
        }
        trace add execution ::diorama::included enterstep ::diorama::step
    }
}
if {[catch {interp eval $child [list ::diorama::included {{} 0} [file tail $script]]} message options]} {
    if {[dict get $options -errorcode] ne {DIORAMA EXIT}} {
        emit error {{} 0} [list $message [dict get $options -errorinfo]]
    }
}
emit end {{} 0} {}
flush stdout
