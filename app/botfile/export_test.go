package botfile

import "reflect"

// Content has the keys of a file.
var Content = reflect.TypeFor[content]()
