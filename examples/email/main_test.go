package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// delivery is a mail as it arrived.
type delivery struct {
	envelope []string
	text     string
}

// outbox is a mailer to a mail server of the test, and what that got.
func outbox(t *testing.T) (mailer, chan delivery) {
	t.Helper()
	got := make(chan delivery, 8)
	server, err := startStandIn(t.Context(), func(envelope []string, text string) { got <- delivery{envelope, text} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.close)
	return mailer{addr: server.addr(), from: mail.Address{Name: "Mailbot", Address: "mailbot@example.com"}}, got
}

func setup(t *testing.T) (*bottest.Kit, *bottest.Chat, chan delivery) {
	t.Helper()
	m, got := outbox(t)
	kit, chat := talk(t, nil, m)
	return kit, chat, got
}

// talk is a chat of Mia with the bot, on that model; nil: on a scripted one.
func talk(t *testing.T, model models.Model, m mailer) (*bottest.Kit, *bottest.Chat) {
	t.Helper()
	kit := bottest.New(t, bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		if model == nil {
			model = p.Model
		}
		return app.New(ctx, mailbot(m), model, p.Bot)
	}})
	return kit, kit.Personal("Mia")
}

// read is the header and the text of a mail.
func read(t *testing.T, d delivery) (mail.Header, string) {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(d.text))
	if err != nil {
		t.Fatalf("%v in %s", err, d.text)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil {
		t.Fatal(err)
	}
	return message.Header, strings.TrimSpace(string(body))
}

const summarizeAndSend = `{"type":"plan","commands":[
	{"type":"DO","action":"Summarize","entities":{"input":"A very long report."},"saveAs":"SUMMARY"},
	{"type":"DO","action":"SendEmail","entities":{"to":"Ann <ann@example.com>","subject":"Grüße","body":"$SUMMARY"},"saveAs":"SENT"},
	{"type":"SAY","response":"The summary was $SENT."}]}`

func TestSummaryIsMailedOnceItIsApproved(t *testing.T) {
	t.Parallel()
	kit, chat, got := setup(t)
	const summary = "It is long.\n.\nReally – very."
	kit.Model.Says(summarizeAndSend, summary)
	chat.Say("Summarize this and send it to Ann: A very long report.")
	card := chat.ExpectCard()
	for _, want := range []string{"Send email", "ann@example.com", "Grüße", "Really – very."} {
		if !strings.Contains(card.JSON, want) {
			t.Errorf("the card does not show %s: %s", want, card.JSON)
		}
	}
	if calls := kit.Model.Calls(); len(calls) != 2 || !strings.HasSuffix(calls[1].Last("user"), "\n\nA very long report.") {
		t.Errorf("the model was asked %v", calls)
	}
	if len(got) != 0 {
		t.Fatal("sent before it was approved")
	}
	card.Press("Approve")
	chat.Expect("The summary was sent to ann@example.com.")

	d := <-got
	if diff := cmp.Diff([]string{"MAIL FROM:<mailbot@example.com>", "RCPT TO:<ann@example.com>"}, d.envelope); diff != "" {
		t.Error(diff)
	}
	header, body := read(t, d)
	subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
	if err != nil || subject != "Grüße" || header.Get("To") != `"Ann" <ann@example.com>` || body != summary {
		t.Errorf("subject %q, %v, to %q, body %q", subject, err, header.Get("To"), body)
	}
	card.Press("Approve")
	if len(got) != 0 {
		t.Error("a second click sent it again")
	}
}

func TestNothingIsMailedAfterANo(t *testing.T) {
	t.Parallel()
	kit, chat, got := setup(t)
	kit.Model.Says(summarizeAndSend, "Long.")
	chat.Say("Summarize and send")
	chat.ExpectCard().Press("Reject")
	chat.Expect("OK, I won't do this: Send email.")
	if len(got) != 0 {
		t.Error("sent")
	}
}

func TestAFailedMailIsNotCalledSent(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := mailer{addr: listener.Addr().String()}
	if err := listener.Close(); err != nil { // nobody is there
		t.Fatal(err)
	}
	kit, chat := talk(t, nil, m)
	kit.Model.Says(summarizeAndSend, "Long.", `{"type":"plan","commands":[{"type":"SAY","response":"I could not send it."}]}`)
	chat.Say("Summarize and send")
	chat.ExpectCard().Press("Approve")
	chat.Expect("I could not send it.")
	if prompt := kit.Model.Calls()[2].Prompt(); strings.Contains(prompt, m.addr) {
		t.Errorf("the model was told what is for the log: %s", prompt)
	}
}

func TestNoHeaderCanBeAdded(t *testing.T) {
	t.Parallel()
	m, got := outbox(t)
	to := &mail.Address{Name: "Ann\r\nBcc: eve@example.com", Address: "ann@example.com"}
	for _, subject := range []string{"Hello\r\nBcc: eve@example.com", "Hello\nBcc: eve@example.com", "a\rb", strings.Repeat("ü\n", 300)} {
		if err := m.send(t.Context(), to, subject, "\r\n.\r\nQUIT\r\n"); err != nil {
			t.Fatal(err)
		}
		header, body := read(t, <-got)
		if len(header) != 7 || header.Get("Bcc") != "" || !strings.Contains(body, "QUIT") {
			t.Errorf("%q: header %v, body %q", subject, header, body)
		}
	}
	for _, address := range []string{"ann@example.com>\r\nRCPT TO:<eve@example.com", "ann@example.com, eve@example.com", "ann", ""} {
		result, err := m.sendEmail(t.Context(), nil, email{To: address, Subject: "x", Body: "x"})
		if err != nil || !result.Failed() {
			t.Errorf("%q: %q, %v", address, result.Text(), err)
		}
	}
	if len(got) != 0 {
		t.Error("a mail left")
	}
}

func TestAMailServerThatFallsSilentIsLeft(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "220 hello\r\n")
		_, _ = conn.Read(make([]byte, 64)) // the client has said hello and waits
		cancel()
		_, _ = io.Copy(io.Discard, conn) // until it leaves
	}()
	m := mailer{addr: listener.Addr().String()}
	if err := m.send(ctx, &mail.Address{Address: "ann@example.com"}, "x", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestEmailWithoutAKey(t *testing.T) {
	t.Parallel()
	m, got := outbox(t)
	_, chat := talk(t, models.Offline{}, m)
	chat.Say(`SendEmail to=ann@example.com subject=Hello body="How are you?"`)
	chat.ExpectCard().Press("Approve")
	chat.Expect("sent to ann@example.com")
	if _, body := read(t, <-got); body != "How are you?" {
		t.Errorf("body %q", body)
	}
}

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat, _ := setup(t)
	kit.Model.Says(summarizeAndSend, "A report.")
	chat.Say("summarize this and send it to Ann: A very long report.")
	chat.ExpectCard()
	kit.GoldenPrompt("testdata/prompts.txt")
}

// Limits on what a client of the stand-in may hold on to.
const (
	sessionTimeout = 10 * time.Second
	maxMail        = 1 << 20 // bytes, of a whole session
)

// standIn is a mail server for trying things out: it takes mails on a port of
// this machine, one client after the other, and delivers none of them.
type standIn struct {
	listener net.Listener
	got      func(envelope []string, mail string)
	ended    chan struct{}
}

// startStandIn starts one that calls got with each mail. Close it.
func startStandIn(ctx context.Context, got func(envelope []string, mail string)) (*standIn, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the stand-in for a mail server: %w", err)
	}
	s := &standIn{listener: listener, got: got, ended: make(chan struct{})}
	go s.serve()
	return s, nil
}

func (s *standIn) addr() string { return s.listener.Addr().String() }

// close ends the server, after the session that is at work.
func (s *standIn) close() {
	_ = s.listener.Close() // it has no other clients
	<-s.ended
}

func (s *standIn) serve() {
	defer close(s.ended)
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(sessionTimeout)) // fails only for a connection that is gone
		s.session(conn)
		_ = conn.Close()
	}
}

// session speaks as much SMTP as [net/smtp] does without extensions.
func (s *standIn) session(conn net.Conn) {
	in := textproto.NewReader(bufio.NewReader(io.LimitReader(conn, maxMail)))
	say := func(line string) { fmt.Fprint(conn, line+"\r\n") }
	say("220 stand-in")
	var envelope []string
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		switch verb, _, _ := strings.Cut(strings.ToUpper(line), " "); verb {
		case "EHLO", "HELO", "NOOP":
			say("250 ok")
		case "MAIL", "RCPT":
			envelope = append(envelope, line)
			say("250 ok")
		case "RSET":
			envelope = nil
			say("250 ok")
		case "DATA":
			say("354 end with a dot")
			mail, err := io.ReadAll(in.DotReader())
			if err != nil {
				return
			}
			s.got(envelope, string(mail))
			envelope = nil
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("502 not here")
		}
	}
}

// TestScenarios plays scenarios.yaml, as "bottest run" does.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, mailbot(mailer{}), "scenarios.yaml")
}
