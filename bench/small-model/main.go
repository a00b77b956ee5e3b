// Command small-model holds the wire and the decoder against a real server and a
// real, very small model: llama-cpp-python with SmolLM2-135M-Instruct. run.sh
// beside it installs and starts both, and then runs it. It judges neither wit nor
// speed: a model of this size is wrong most of the time, and that is what makes it
// a good stranger.
//
// It prints what it found as markdown and ends with status 1 when a check failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/planbot-go/planbot/models"
)

// timeout bounds the whole run. One on a machine with one free core takes minutes.
const timeout = 2 * time.Hour

func main() {
	os.Exit(run())
}

func run() int {
	url := flag.String("url", "", "base URL of the server, such as http://127.0.0.1:8000/v1")
	key := flag.String("key", "", "its API key")
	model := flag.String("model", "smollm2", "its name for the model")
	window := flag.Int("window", 4096, "its context window in tokens")
	answers := flag.String("answers", "", "file for every answer of the model, one JSON object a line")
	only := flag.String("only", "", "checks or plans; both when empty")
	hot := flag.Bool("hot", false, "ask at temperature 1, for the decoder's sake, in place of the likeliest tokens")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	b := &bench{key: *key, model: *model, window: *window, only: *only, answers: *answers, hot: *hot}
	failed, err := b.run(ctx, *url)
	if err != nil {
		fmt.Fprintln(os.Stderr, "small-model:", err)
		return 2
	}
	if failed > 0 {
		fmt.Printf("\n%d checks failed.\n", failed)
		return 1
	}
	return 0
}

// bench is one run against one server.
type bench struct {
	tap     *tap // all traffic goes through it
	key     string
	model   string
	window  int
	only    string
	answers string
	hot     bool
}

func (b *bench) run(ctx context.Context, url string) (failed int, err error) {
	tap, err := openTap(ctx, url)
	if err != nil {
		return 0, err
	}
	defer tap.close()
	b.tap = tap
	if b.only != "plans" {
		failed += b.checkWire(ctx)
	}
	if b.only != "checks" {
		tap.besideObject.Store(true)
		more, err := b.judgePlans(ctx)
		if err != nil {
			return failed, err
		}
		failed += more
	}
	return failed, nil
}

// newModel is a client of the server that has learned nothing yet.
func (b *bench) newModel(change ...func(*models.OpenAIConfig)) (*models.OpenAI, error) {
	// A busy machine writes a few tokens a second.
	cfg := models.OpenAIConfig{BaseURL: b.tap.url, Key: b.key, Model: b.model, Timeout: 10 * time.Minute, MaxTokensField: "max_tokens"}
	for _, c := range change {
		c(&cfg)
	}
	return models.NewOpenAI(cfg)
}
