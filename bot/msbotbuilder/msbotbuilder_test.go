package msbotbuilder_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	library "github.com/infracloudio/msbotbuilder-go/core/activity"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/msbotbuilder"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
)

// serve makes a kit whose bot serves the handler.
func serve(t *testing.T, h library.Handler, invokes ...string) *bottest.Kit {
	t.Helper()
	return bottest.New(t, bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		cfg := p.Bot
		cfg.Actions = actions.New()
		var err error
		if cfg.Planner, err = p.Planner(ctx, "", planner.Config{Actions: cfg.Actions}); err != nil {
			return nil, err
		}
		b, err := bot.New(cfg)
		if err != nil {
			return nil, err
		}
		msbotbuilder.Serve(b, h, invokes...)
		return b, nil
	}})
}

func TestServe(t *testing.T) {
	t.Parallel()
	kit := serve(t, library.HandlerFuncs{
		OnMessageFunc: func(turn *library.TurnContext) (schema.Activity, error) {
			switch text := turn.Activity.Text; text {
			case "nothing":
				return schema.Activity{}, nil
			case "fail":
				return schema.Activity{}, errors.New("the database is away")
			case "card":
				return turn.SendActivity(library.MsgOptionAttachments([]schema.Attachment{{
					ContentType: "application/vnd.microsoft.card.adaptive",
					Content:     map[string]any{"type": "AdaptiveCard", "version": "1.4", "body": []any{map[string]any{"type": "TextBlock", "text": "the menu"}}},
				}}))
			default:
				return turn.SendActivity(library.MsgOptionText("Echo: " + text + " from " + turn.Activity.From.Name))
			}
		},
		OnInvokeFunc: func(*library.TurnContext) (schema.Activity, error) { return schema.Activity{}, nil },
	}, "signin/mine")
	chat := kit.Personal("Mia")
	chat.Say("hello")
	chat.Expect("Echo: hello from Mia")
	chat.Say("card")
	chat.ExpectCard("the menu")
	chat.Say("nothing")
	chat.ExpectNothing()
	chat.Say("fail")
	if said := chat.Next().Activity.Text; strings.Contains(said, "database") || said == "" {
		t.Errorf("after an error the person reads %q", said)
	}
	if status := chat.Invoke("signin/mine", nil).Status; status != 200 {
		t.Errorf("the invoke was answered with %d", status)
	}
}

// TestServeOnlyWhatIsSet: a function that is not set leaves its activities to the bot.
func TestServeOnlyWhatIsSet(t *testing.T) {
	t.Parallel()
	kit := serve(t, library.HandlerFuncs{OnConversationUpdateFunc: func(turn *library.TurnContext) (schema.Activity, error) {
		return turn.SendActivity(library.MsgOptionText("Welcome."))
	}})
	chat := kit.Personal("Mia")
	chat.AddBot()
	chat.Expect("Welcome.")
	kit.Model.Says("Hello from the planner.")
	chat.Say("hi")
	chat.Expect("Hello from the planner.")
}
