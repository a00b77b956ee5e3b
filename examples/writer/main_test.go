package main

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// The plans of a model, in the forms that the planner reads.
const (
	xmlPlan = `<plan>
    <!-- First, a poem about "TOPIC" is written -->
    <function.WriterPlugin.ShortPoem input="TOPIC" setContextVariable="POEM"/>
    <!-- Then it is translated -->
    <function.WriterPlugin.Translate input="$POEM" language="LANGUAGE" appendToResult="RESULT__FINAL_ANSWER"/>
</plan>
<!-- END -->`
	jsonPlan = `{"type":"plan","commands":[
  {"type":"DO","action":"WriterPlugin-ShortPoem","entities":{"input":"TOPIC"},"saveAs":"POEM"},
  {"type":"DO","action":"WriterPlugin.Translate","entities":{"input":"$POEM","language":"LANGUAGE"},"saveAs":"TRANSLATED"},
  {"type":"SAY","response":"$TRANSLATED"}]}`
	bareNames = `<plan>
    <function.ShortPoem input="TOPIC" setContextVariable="POEM"/>
    <function.Translate input="$POEM" language="LANGUAGE"/>
</plan>`
)

// talk is a chat of Mia with the bot, on that model; nil: on a scripted one.
func talk(t *testing.T, model models.Model) (*bottest.Kit, *bottest.Chat) {
	t.Helper()
	kit := bottest.New(t, bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		if model == nil {
			model = p.Model
		}
		return app.New(ctx, writer, model, p.Bot)
	}})
	return kit, kit.Personal("Mia")
}

func TestPoemThenTranslation(t *testing.T) {
	t.Parallel()
	for _, form := range []string{xmlPlan, jsonPlan, bareNames} {
		for _, c := range []struct{ say, topic, language, poem, translated string }{
			{
				"Write a poem about John Doe, then translate it into Chinese.", "John Doe", "Chinese",
				"John Doe went out <to> sea,\nfor $5 & a cup of $POEM.", "约翰出海去,\n五元一杯茶。",
			},
			{"帮忙写一首关于水哥的诗, 然后翻译为中文", "水哥", "中文", "水哥如水,\n静而有声。", "水哥如水,静而有声。"},
		} {
			kit, chat := talk(t, nil)
			plan := strings.NewReplacer("TOPIC", c.topic, "LANGUAGE", c.language).Replace(form)
			kit.Model.Says(plan, c.poem, c.translated)
			chat.Say(c.say)
			chat.Expect(c.translated)
			if said := chat.Messages(); len(said) != 1 {
				t.Errorf("the bot said %d things", len(said))
			}
			want := []models.Message{
				{Role: "user", Text: "Write a short poem, eight lines at most, about the topic below and in its language. Answer with the poem only.\n\n" + c.topic},
				{Role: "user", Text: "Translate the text below into " + c.language + ". Keep its lines and its tone. Answer with the translation only.\n\n" + c.poem},
			}
			calls := kit.Model.Calls()
			if len(calls) != 3 || calls[0].Last("user") != c.say {
				t.Fatalf("%d calls, the first about %q", len(calls), calls[0].Last("user"))
			}
			got := append(calls[1].Messages, calls[2].Messages...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what the prompts asked (-want +got):\n%s", diff)
			}
		}
	}
}

func TestThePlannerIsToldOfThePrompts(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	kit.Model.Says("I write poems and translate.")
	chat.Say("what can you do for me?")
	chat.Expect("I write poems and translate.")
	prompt := kit.Model.Calls()[0].Messages[0].Text
	for _, want := range []string{
		"WriterPlugin.ShortPoem:\n  description: Writes a short poem\n  inputs:\n    - input: what the poem is about\n\n" +
			"WriterPlugin.Translate:\n  description: Translates a text\n  inputs:\n    - input: the text\n    - language: the language to translate into\n",
	} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the prompt lacks %q:\n%s", want, prompt)
		}
	}
}

func TestWriterWithoutAKeySaysSo(t *testing.T) {
	t.Parallel()
	_, chat := talk(t, models.Offline{})
	for _, text := range []string{"Write a poem about John Doe.", `WriterPlugin.ShortPoem input="John Doe"`} {
		chat.Say(text)
		if got := chat.Next().Activity.Text; !strings.Contains(got, "no language model") || strings.Contains(got, "commands") {
			t.Errorf("%s: said %q", text, got)
		}
	}
}

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	kit.Model.Says(strings.NewReplacer("TOPIC", "rain", "LANGUAGE", "Italian").Replace(xmlPlan), "Rain.", "Pioggia.")
	chat.Say("a poem about rain, in Italian")
	chat.Expect("Pioggia.")
	kit.GoldenPrompt("testdata/prompts.txt")
}

// TestScenarios plays scenarios.yaml, as "bottest run" does.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, writer, "scenarios.yaml")
}
