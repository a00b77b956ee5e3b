package app

import (
	"io"
	"testing"

	"github.com/planbot-go/planbot/bot"
)

// Assembled is the default bot with these settings, by their flags, and what runs its scripts.
func Assembled(t testing.TB, flags map[string]string) (b *bot.Bot, scripts string) {
	t.Helper()
	p := assembled(t, flags, io.Discard)
	return p.bot, p.aboutScripts
}
