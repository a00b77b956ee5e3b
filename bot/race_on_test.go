//go:build race

package bot_test

// underRace says that the race detector is on. It makes [TestEveryCrash] five times as slow.
const underRace = true
