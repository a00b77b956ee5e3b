// Package teams plays cases of what Teams and a bot say to each other: what is posted to the bot and
// when, what the model writes and when, how the connector answers, and which calls must come of it.
// Each case gets a bot of its own, and its times are virtual: two minutes of a stream cost nothing.
//
// Without a flag the tests play the cases in testdata. Others are played by
//
//	go test -v -count=1 ./e2e/teams -run Vectors -args -vectors /ABSOLUTE/FILE
//
// with one case in each line of the file, as JSON. The last line of the player is
//
//	N passed, N failed
package teams
