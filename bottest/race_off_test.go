//go:build !race

package bottest_test

const underRace = false
