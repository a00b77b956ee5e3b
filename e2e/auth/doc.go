// Package auth holds the proof that nobody gets in who should not. Its tests are a
// black box: the built bot in a process of its own, stand-ins for the issuer of
// tokens, the login, the connector and the model, and everything that strangers may
// send. What is refused makes no call to anybody, and the log of it all holds no
// secret, no token and nothing that people wrote.
//
// They take the bot in BOT_BIN, else they build it. What floods cost good messages is
// measured at length by hand:
//
//	go test -v -run Flood ./e2e/auth -args -load 20s -slow 1000 -connections 10000
package auth
