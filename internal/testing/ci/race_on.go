//go:build race

package ci

// UnderRace says whether the race detector is on, which makes what computes five to ten times as slow.
const UnderRace = true
