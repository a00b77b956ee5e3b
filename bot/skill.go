package bot

import (
	"context"
	"strings"
)

const skillCommand = "/skill"

// isSkillCommand takes /skill, alone or with words behind it.
func (b *Bot) isSkillCommand(t *Turn) bool {
	if b.cfg.Skills == nil || !t.isMessage() {
		return false
	}
	_, ok := skillWords(t.Text)
	return ok
}

func skillWords(text string) (words string, ok bool) {
	if len(text) < len(skillCommand) || !strings.EqualFold(text[:len(skillCommand)], skillCommand) {
		return "", false
	}
	words = strings.TrimSpace(text[len(skillCommand):])
	return words, words == "" || words != text[len(skillCommand):] // a space parts them
}

// skill does what a person asks of skills in so many words. What is left to be done with
// one is planned for.
func (b *Bot) skill(ctx context.Context, t *Turn) error {
	words, _ := skillWords(t.Text)
	reply, rest, err := b.cfg.Skills.Command(ctx, t.Turn, words)
	if err != nil {
		return err
	}
	if rest == "" {
		return t.Tell(ctx, reply)
	}
	t.Text = rest
	return planned(ctx, t)
}
