package record

// PlaceholderOf is for tests.
var PlaceholderOf = placeholderOf
