//go:build race

package bottest_test

// underRace says that the race detector is on. It makes [TestCrashes] five times as slow.
const underRace = true
