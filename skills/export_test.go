package skills

// What is behind the moment at which a file was looked at, for tests of what happens then.
var (
	OpenSeen = openSeen
	ReadSeen = readSeen
)

// CommandLine is how scripts get their arguments.
var CommandLine = commandLine

// Seconds is how a limit of time is told.
var Seconds = seconds
