package skills

// CommandLine is how scripts get their arguments.
var CommandLine = commandLine

// Seconds is how a limit of time is told.
var Seconds = seconds

// Describe says what bytes are.
var Describe = describe
