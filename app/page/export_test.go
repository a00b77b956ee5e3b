package page

// What the tests that see the page from outside are made of.
type (
	Config  = config
	Parts   = parts
	Page    = server
	Change  = variation
	Trial   = trial
	Setting = setting
)

// New is newServer.
var New = newServer
