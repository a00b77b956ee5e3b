package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"

	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

const shippedEval = "../../examples/eval/lists.yaml"

// TestShippedEval: the file fits the default bot, in every language.
func TestShippedEval(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(shippedEval)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := eval.Read(shippedEval, text, defaultActions())
	if err != nil {
		t.Fatal(err)
	}
	langs, wanted := map[string]int{}, map[string]bool{}
	for _, c := range cases {
		langs[c.Lang]++
		for _, call := range c.Want[0] {
			wanted[call.Action] = true
		}
	}
	for _, lang := range []string{"en", "zh", "it", "de"} {
		if langs[lang] < 10 {
			t.Errorf("%d cases of %s", langs[lang], lang)
		}
	}
	for _, action := range defaultActions().All() {
		if !wanted[action.Name] {
			t.Errorf("no case is for %s", action.Name)
		}
	}
	if code, out, errs := execute(t, "", "eval", shippedEval, "--run=^en "); code != 0 || !strings.HasPrefix(out, "a: offline, ") || !strings.Contains(out, "\nall       16   100%") || errs != "" {
		t.Errorf("offline: %d %s%s", code, out, errs)
	}
}

// TestEvalOfExamples: without a file the examples of the actions are asked for, which the offline model knows.
func TestEvalOfExamples(t *testing.T) {
	t.Parallel()
	code, out, errs := execute(t, "", "eval", "--min=1")
	if code != 0 || !strings.Contains(out, "a: offline, ") || !strings.Contains(out, " 0 failed") || errs != "" {
		t.Errorf("%d %s%s", code, out, errs)
	}
	file := filepath.Join(t.TempDir(), "actions.json")
	if err := os.WriteFile(file, []byte(`[{"name":"wait"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := execute(t, "", "eval", "--actions", file); code != cli.ExitUsage || !strings.Contains(errs, "no action has an example") {
		t.Errorf("%d %s", code, errs)
	}
}

const (
	planMilk  = `{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}}]}`
	planHello = `{"type":"plan","commands":[{"type":"SAY","response":"Hello!"}]}`
	evalFile  = "cases:\n- {name: milk, lang: en, say: Add milk to groceries, want: [{addItem: {list: groceries, item: milk}}]}\n" +
		"- {name: hello, lang: en, say: Hello, want: say}\n"
)

func writeEval(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eval.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEval(t *testing.T) {
	t.Parallel()
	file := writeEval(t, evalFile)
	for name, c := range map[string]struct {
		says     []string
		args     []string
		code     int
		out, err string
	}{
		"all right":             {[]string{planMilk, planHello}, []string{"--min=1"}, 0, "all        2   100%    100%      100%        0%   1.00", ""},
		"half":                  {[]string{planMilk, planMilk}, nil, 0, "hello (en): \"Hello\"\n  wanted   say\n  came     addItem", ""},
		"too few":               {[]string{planMilk, planMilk}, []string{"--min=0.9"}, cli.ExitFailed, "50%", "0.5 of the plans are all right, less than --min=0.9"},
		"some":                  {[]string{planHello}, []string{"--run=^he"}, 0, "1 of 1 plans", ""},
		"times":                 {[]string{planHello, planHello, planMilk}, []string{"--run=^he", "--times=3"}, 0, "3 of 3 plans", ""},
		"tokens":                {[]string{planMilk}, []string{"--limit-tokens=1"}, exitLimited, "1 of 2 plans", ""},
		"money":                 {[]string{planMilk}, []string{"--limit-cost=0.000001", "--bot-model-price=1,1"}, exitLimited, "stopped: limit", ""},
		"against":               {[]string{planMilk, "Hm.", planHello, planHello}, []string{"--against=OPENAI_MODEL=big", "--against=BOT_RESPONSE_FORMAT=text"}, 0, "(OPENAI_MODEL=big, BOT_RESPONSE_FORMAT=text)\n\n        plans", ""},
		"secrets":               {[]string{planMilk, planHello, planHello, planHello}, []string{"--against=OPENAI_API_KEY=hush"}, 0, "(OPENAI_API_KEY=…)", ""},
		"wrong plan":            {[]string{"{", "{", "{", planHello}, nil, 0, "decode plan: truncated", ""},
		"as JSON":               {[]string{planMilk, planHello}, []string{"--json"}, 0, `"entities": 1,`, ""},
		"as go test":            {[]string{planHello}, []string{"-json", "-run=^he", "-times", "1"}, 0, `"entities": 1,`, ""},
		"no setting":            {nil, []string{"--against=OPENAI_MODELL=secret"}, cli.ExitUsage, "", `--against: "OPENAI_MODELL" is no setting and its value`},
		"no value":              {nil, []string{"--against=OPENAI_MODEL"}, cli.ExitUsage, "", "--against"},
		"bad settings":          {nil, []string{"--against=BOT_PLANNER=x"}, cli.ExitUsage, "", "the settings of --against have to be changed:\nBOT_PLANNER"},
		"no price":              {nil, []string{"--limit-cost=1"}, cli.ExitUsage, "", "BOT_MODEL_PRICE"},
		"no price of the other": {nil, []string{"--limit-cost=1", "--bot-model-price=1,1", "--against=BOT_MODEL_PRICE="}, cli.ExitUsage, "", "BOT_MODEL_PRICE"},
		"numbers":               {nil, []string{"--times=0", "--concurrency=0", "--min=2", "--limit-tokens=-1", "--limit-cost=NaN", "--run=("}, cli.ExitUsage, "", "--times: has to be at least 1\n--concurrency: has to be at least 1\n--limit-tokens: has to be at least 1; without it there is no limit\n--limit-cost: has to be above 0; without it there is no limit\n--min: is no share from 0 to 1\n--run: "},
		"no limits":             {nil, []string{"--limit-cost=0", "--limit-tokens=0"}, cli.ExitUsage, "", "--limit-tokens: has to be at least 1; without it there is no limit\n--limit-cost: has to be above 0"},
		"far too often":         {nil, []string{"--times=1000000000"}, cli.ExitUsage, "", "more than 1000000 plans"},
		"a setting misspelt":    {nil, []string{"--against=openai-modle=x"}, cli.ExitUsage, "", `"openai-modle" is no setting and its value, such as OPENAI_MODEL=…`},
		"a setting twice":       {nil, []string{"--against=OPENAI_MODEL=x", "--against=OPENAI_MODEL=y"}, cli.ExitUsage, "", "--against: OPENAI_MODEL is given twice"},
		"a setting of no plan":  {nil, []string{"--against=PORT=99", "--against=REDIS_URL=redis://:hush@x"}, cli.ExitUsage, "", "--against: PORT changes no plan: it is not a setting of models, prompts, skills or the planner\n--against: REDIS_URL changes no plan"},
		"all digits":            {[]string{planHello, planHello, planMilk}, []string{"--run=^he", "--times=3", "--min=0.6667"}, cli.ExitFailed, "67%", "a: 0.66666667 of the plans are all right, less than --min=0.6667\n"},
		"as many digits":        {[]string{planHello, planHello, planMilk}, []string{"--run=^he", "--times=3", "--min=0.66666667"}, 0, "67%", ""},
		"the other too few":     {[]string{planMilk, planMilk, planHello, planMilk}, []string{"--min=0.75", "--against=OPENAI_MODEL=big"}, cli.ExitFailed, "", "b: 0.5 of the plans are all right, less than --min=0.75\n"},
		"the first too few":     {[]string{planHello, planMilk, planHello, planHello}, []string{"--min=0.75", "--against=OPENAI_MODEL=big"}, cli.ExitFailed, "", "a: 0.5 of the plans are all right, less than --min=0.75\n"},
		"both too few":          {[]string{planMilk, planMilk, planMilk, planMilk}, []string{"--min=0.75", "--against=OPENAI_MODEL=big"}, cli.ExitFailed, "", "--min=0.75\nb: 0.5 of"},
		"no price of another":   {nil, []string{"--limit-cost=1", "--bot-model-price=1,1", "--against=OPENAI_MODEL=big"}, cli.ExitUsage, "", "--limit-cost: needs --against BOT_MODEL_PRICE to know"},
		"no case":               {nil, []string{"--run=zzz"}, cli.ExitUsage, "", "zzz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := fakemodel.New(t)
			model.Says(c.says...)
			code, out, errs := execute(t, "", append([]string{"eval", file, "--openai-base-url=" + model.URL, "--openai-model=small"}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) || strings.Contains(out+errs, "\r") || strings.Contains(out, "hush") {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, c.code, out, errs)
			}
			if c.args != nil && strings.HasSuffix(c.args[0], "-json") && !json.Valid([]byte(out)) {
				t.Errorf("no JSON: %s", out)
			}
		})
	}
}

// TestEvalAgainst: the other settings are those of the second side alone.
func TestEvalAgainst(t *testing.T) {
	t.Parallel()
	model := fakemodel.New(t)
	model.Says(planHello)
	model.CallsTools("Hello!")
	code, _, errs := execute(t, "", "eval", writeEval(t, evalFile), "--run=hello", "--openai-base-url="+model.URL, "--openai-model=small",
		"--against=OPENAI_MODEL=big", "--against=BOT_PLANNER=tools")
	calls := model.Calls()
	if code != 0 || len(calls) != 2 {
		t.Fatalf("%d calls, exit code %d: %s", len(calls), code, errs)
	}
	if calls[0].Model != "small" || len(calls[0].Tools) != 0 || calls[1].Model != "big" || len(calls[1].Tools) == 0 {
		t.Errorf("asked %s with %d tools, then %s with %d", calls[0].Model, len(calls[0].Tools), calls[1].Model, len(calls[1].Tools))
	}
}

// keeper is a stand-in that keeps which keys it was sent.
func keeper(t *testing.T) (url string, keys func() string) {
	t.Helper()
	var mu sync.Mutex
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, cmp.Or(r.Header.Get("Authorization")+r.Header.Get("Api-Key"), "no key"))
		fakemodel.Answer{Text: planHello}.Write(w, r, fakemodel.Call{})
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(sent, ", ")
	}
}

// TestEvalAgainstKeepsKeys: the key of one server is not sent to another.
func TestEvalAgainstKeepsKeys(t *testing.T) {
	t.Parallel()
	file := writeEval(t, evalFile)
	for name, c := range map[string]struct {
		args       []string
		code       int
		here, away string // keys that were sent there
		err        string
	}{
		"no other key":     {[]string{"OPENAI_BASE_URL=$AWAY"}, cli.ExitUsage, "", "", "--against: the OPENAI_API_KEY that is set is for $HERE, and is not sent to $AWAY: add --against OPENAI_API_KEY=…, with nothing"},
		"a key of its own": {[]string{"OPENAI_BASE_URL=$AWAY", "OPENAI_API_KEY=other"}, 0, "Bearer hush", "Bearer other", ""},
		"none":             {[]string{"OPENAI_BASE_URL=$AWAY", "OPENAI_API_KEY="}, 0, "Bearer hush", "no key", ""},
		"another model":    {[]string{"OPENAI_MODEL=big"}, 0, "Bearer hush, Bearer hush", "", ""},
		"another path":     {[]string{"OPENAI_BASE_URL=$HERE/v1/"}, 0, "Bearer hush, Bearer hush", "", ""},
		"that of OpenAI":   {[]string{"OPENAI_BASE_URL="}, cli.ExitUsage, "", "", "$HERE, and is not sent to https://api.openai.com:443:"},
		"no address":       {[]string{"OPENAI_BASE_URL=nowhere"}, cli.ExitUsage, "", "", "OPENAI_BASE_URL: is not an http or https address"},
		"fallback":         {[]string{"BOT_FALLBACK_MODELS=f", "BOT_FALLBACK_BASE_URL=$AWAY"}, cli.ExitUsage, "", "", "the BOT_FALLBACK_API_KEY that is set is for http://127.0.0.1:1, and"},
		"Azure":            {[]string{"AZURE_OPENAI_ENDPOINT=$AWAY", "AZURE_OPENAI_DEPLOYMENT=d", "AZURE_OPENAI_API_KEY=azure"}, 0, "Bearer hush", "azure", ""},
		"half of Azure":    {[]string{"AZURE_OPENAI_ENDPOINT=$AWAY"}, cli.ExitUsage, "", "", "AZURE_OPENAI_DEPLOYMENT: "},
		"offline":          {[]string{"OPENAI_BASE_URL=", "OPENAI_API_KEY=", "BOT_FALLBACK_MODELS=", "BOT_FALLBACK_BASE_URL=", "BOT_FALLBACK_API_KEY=", "BOT_MODEL=offline"}, 0, "Bearer hush", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, sentHere := keeper(t)
			away, sentAway := keeper(t)
			servers := strings.NewReplacer("$HERE", here, "$AWAY", away)
			args := []string{
				"eval", file, "--run=hello", "--openai-base-url=" + here, "--openai-api-key=hush",
				"--bot-fallback-models=f", "--bot-fallback-base-url=http://127.0.0.1:1", "--bot-fallback-api-key=behind",
			}
			for _, each := range c.args {
				args = append(args, "--against="+servers.Replace(each))
			}
			code, out, errs := execute(t, "", args...)
			if code != c.code || sentHere() != c.here || sentAway() != c.away || !strings.Contains(errs, servers.Replace(c.err)) || strings.Contains(out+errs, "hush") {
				t.Errorf("exit code %d, sent %q here and %q away\n%s%s", code, sentHere(), sentAway(), out, errs)
			}
		})
	}
	here, sentHere := keeper(t)
	away, sentAway := keeper(t)
	code, _, errs := execute(t, "", "eval", file, "--azure-openai-endpoint="+here, "--azure-openai-deployment=d", "--azure-openai-api-key=hush", "--against=AZURE_OPENAI_ENDPOINT="+away)
	if code != cli.ExitUsage || sentHere()+sentAway() != "" || !strings.Contains(errs, "the AZURE_OPENAI_API_KEY that is set is for "+here) {
		t.Errorf("Azure beside Azure: exit code %d, %s", code, errs)
	}
}

// TestEvalAgainstPrices: the price of one model is not that of another.
func TestEvalAgainstPrices(t *testing.T) {
	t.Parallel()
	for against, end := range map[string]string{
		"OPENAI_MODEL=big":         "; of b no price is known\n",
		"BOT_FALLBACK_MODELS=more": "; of b no price is known\n",
		"OPENAI_MODEL=small":       "tokens, cost 30.0000\n",
		"BOT_PLANNER=sequential":   "tokens, cost 30.0000\n",
		"BOT_MODEL_PRICE=5e5,5e5":  "tokens, cost 22.5000\n",
	} {
		model := fakemodel.New(t)
		model.Says(planHello, planHello)
		code, out, errs := execute(t, "", "eval", writeEval(t, evalFile), "--run=hello", "--openai-base-url="+model.URL, "--openai-model=small", "--bot-model-price=1000000,1000000", "--bot-max-turn-cost=1", "--against="+against)
		if code != 0 || !strings.HasSuffix(out, end+"2 passed, 0 failed\n") {
			t.Errorf("%s: exit code %d, want %s\n%s%s", against, code, end, out, errs)
		}
	}
}

func TestEvalFails(t *testing.T) {
	t.Parallel()
	model := fakemodel.New(t)
	for range 2 {
		model.Fails(404, "model_not_found")
	}
	model.Fails(401, "invalid_api_key")
	args := []string{"eval", writeEval(t, evalFile), "--openai-base-url=" + model.URL}
	if code, out, errs := execute(t, "", args...); code != cli.ExitFailed || !strings.Contains(out, "2 of 2 plans") || !strings.Contains(errs, "a: the model gave no answer at all: default at ") {
		t.Errorf("no answers: %d %s%s", code, out, errs)
	}
	if code, out, errs := execute(t, "", args...); code != cli.ExitFailed || !strings.Contains(out, "0 of 2 plans") || !strings.Contains(errs, "the model's server takes no calls") {
		t.Errorf("a wrong key: %d %s%s", code, out, errs)
	}
	if code, _, errs := execute(t, "", "eval", writeEval(t, "cases: 3")); code != cli.ExitUsage || !strings.Contains(errs, "eval.yaml: cases: cannot be a number") {
		t.Errorf("a wrong file: %d %s", code, errs)
	}
	if code, out, errs := execute(t, evalFile, "eval", "-", "--run=milk"); code != 0 || !strings.Contains(out, "1 of 1 plans") || errs != "" {
		t.Errorf("standard input: %d %s%s", code, out, errs)
	}
	if code, _, errs := execute(t, "cases: 3", "eval", "-"); code != cli.ExitUsage || !strings.Contains(errs, "stdin: cases: cannot be a number") {
		t.Errorf("wrong standard input: %d %s", code, errs)
	}
	folder := t.TempDir()
	if code, _, errs := execute(t, "", "eval", folder); code != cli.ExitUsage || strings.Count(errs, folder) != 1 {
		t.Errorf("a folder: %d %s", code, errs)
	}
	if code, _, errs := execute(t, "", "eval", "/nowhere"); code != cli.ExitUsage || !strings.Contains(errs, "/nowhere") {
		t.Errorf("no file: %d %s", code, errs)
	}
}

// TestEvalIsInterruptedAsJSON: what there is is whole, also when there is nothing.
func TestEvalIsInterruptedAsJSON(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	code := run(ctx, []string{"eval", "--json", writeEval(t, evalFile)}, &cli.Streams{In: os.Stdin, Out: &out, Err: &errs})
	var got struct {
		Asked, Of int
		Stop      string
		Sides     []struct{ Languages, Results []any }
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || code != exitInterrupted || got.Of != 2 || got.Stop != "interrupted" || errs.String() != "0 passed, 0 failed\n" {
		t.Fatalf("%v, exit code %d\n%s%s", err, code, out.String(), errs.String())
	}
	if got.Sides[0].Languages == nil || got.Sides[0].Results == nil {
		t.Errorf("null in place of a list:\n%s", out.String())
	}
}

// TestEvalIsInterrupted: what there is is printed.
func TestEvalIsInterrupted(t *testing.T) {
	t.Parallel()
	model := fakemodel.New(t)
	model.Says(planMilk)
	asked := model.Waits()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-asked
		cancel()
	}()
	var out, errs strings.Builder
	code := run(ctx, []string{"eval", writeEval(t, evalFile), "--openai-base-url=" + model.URL}, &cli.Streams{In: os.Stdin, Out: &out, Err: &errs})
	if code != exitInterrupted || !strings.Contains(out.String(), "1 of 2 plans") || !strings.Contains(out.String(), "stopped: interrupted") || errs.String() != "" {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
}

// TestEvalOfOtherActions judges plans for a bot that is not this one.
func TestEvalOfOtherActions(t *testing.T) {
	t.Parallel()
	const folder = "../../examples/coffee/"
	model := fakemodel.New(t)
	model.Says(`{"type":"plan","commands":[{"type":"DO","action":"addDrink","entities":{"drink":"green tea"}}]}`)
	args := []string{"eval", folder + "eval.yaml", "--run=tea", "--min=1", "--openai-base-url=" + model.URL}
	if code, out, errs := execute(t, "", append(args, "--actions="+folder+"actions.json")...); code != 0 {
		t.Errorf("exit %d, %s\n%s", code, errs, out)
	}
	if asked := model.Calls()[0].Text(); !strings.Contains(asked, "addDrink(") || strings.Contains(asked, "addItem(") {
		t.Errorf("the model was offered\n%s", asked)
	}
	if code, _, errs := execute(t, "", args...); code != cli.ExitUsage || !strings.Contains(errs, "addDrink") {
		t.Errorf("with the actions of this bot: exit %d, %s", code, errs)
	}
	if code, _, errs := execute(t, "", append(args, "--actions=/nowhere")...); code != cli.ExitUsage || !strings.Contains(errs, "/nowhere") {
		t.Errorf("with no actions: exit %d, %s", code, errs)
	}
}

// TestEvalFindsActions: a model that looks for an action of a service first is judged by what it plans then.
func TestEvalFindsActions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var doc strings.Builder
	doc.WriteString("openapi: 3.1.0\ninfo: {title: Shop, version: '1'}\nservers: [{url: https://shop.example}]\npaths:\n")
	for i := range 60 {
		fmt.Fprintf(&doc, "  /thing%d: {get: {operationId: getThing%d, summary: Reads thing %d, responses: {'200': {description: ok}}}}\n", i, i, i)
	}
	doc.WriteString("  /invoices: {get: {operationId: listInvoices, summary: Lists the invoices, responses: {'200': {description: ok}}}}\n")
	for name, text := range map[string]string{
		"shop.yaml": doc.String(), "bot.yaml": "version: 1\nname: Shop\nconnections:\n  shop: {openapi: shop.yaml}\n",
		"eval.yaml": "cases:\n- {name: invoices, lang: en, say: Which invoices are there?, want: [shop_listInvoices: {}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	model := fakemodel.New(t)
	model.Says(`{"type":"plan","commands":[{"type":"DO","action":"findActions","entities":{"words":"list invoices"}}]}`,
		`{"type":"plan","commands":[{"type":"DO","action":"shop_listInvoices","entities":{},"saveAs":"I"},{"type":"SAY","response":"$I"}]}`)
	code, out, errs := execute(t, "", "eval", filepath.Join(dir, "eval.yaml"), "--file="+filepath.Join(dir, "bot.yaml"), "--min=1", "--openai-base-url="+model.URL)
	calls := model.Calls()
	if code != 0 || len(calls) != 2 || strings.Contains(calls[0].Text(), "listInvoices") || !strings.Contains(calls[1].Text(), "shop_listInvoices") {
		t.Errorf("exit %d after %d calls: %s\n%s", code, len(calls), out, errs)
	}
}
