proc make_node {} {
    global ns
    set made [$ns node]
    return $made
}
