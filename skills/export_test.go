package skills

// What is behind the moment at which a file was looked at, for tests of what happens then.
var (
	OpenSeen = openSeen
	ReadSeen = readSeen
)
