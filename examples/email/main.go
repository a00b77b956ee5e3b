// Command email is a bot that summarizes texts and mails them: one plan does both,
// and a person approves the mail before it leaves. See README.md beside it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"os"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
)

//go:embed prompts
var files embed.FS

// mailbot is the bot: the prompt Summarize and the action SendEmail. A person has to approve each
// mail, and sees on the card to whom it goes and what it says.
func mailbot(m mailer) app.Bot {
	return app.Bot{
		Name:     "Mailbot",
		Examples: []string{"Summarize this and send it to ann@example.com: …"},
		Prompts:  files,
		Register: func(r *actions.Registry) {
			actions.Add(r, "SendEmail", "Sends an email", m.sendEmail, actions.NeedsApproval)
		},
	}
}

func main() {
	app.Main(mailbot(mailer{addr: os.Getenv("SMTP_ADDR"), from: mail.Address{Name: "Mailbot", Address: "mailbot@example.com"}}), full.Features()...)
}

type email struct {
	To      string `json:"to" jsonschema:"address of the recipient"`
	Subject string `json:"subject"`
	Body    string `json:"body" jsonschema:"plain text"`
}

func (m mailer) sendEmail(ctx context.Context, _ *actions.Turn, in email) (actions.Result, error) {
	to, err := mail.ParseAddress(in.To)
	if err != nil {
		return actions.Fail("%q is not the address of one recipient", in.To), nil
	}
	if err := m.send(ctx, to, in.Subject, in.Body); err != nil {
		return actions.Result{}, err // for the log; the model learns only that it failed
	}
	return actions.Text("sent to %s", to.Address), nil
}

// sendWithin bounds how long a mail server may take.
const sendWithin = 20 * time.Second

// mailer sends mails by SMTP to the server at addr, which asks for no password. Without
// addr it prints them.
type mailer struct {
	addr string
	from mail.Address
}

func (m mailer) send(ctx context.Context, to *mail.Address, subject, body string) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	message, err := m.message(to, subject, body)
	if err != nil {
		return err
	}
	if m.addr == "" {
		fmt.Printf("--- a mail that SMTP_ADDR would have got\n%s---\n", message)
		return nil
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return fmt.Errorf("reach the mail server: %w", err)
	}
	defer conn.Close()                                          //nolint:errcheck // the server has said what became of the mail
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // net/smtp takes no ctx
	if err := deliver(conn, m.from.Address, to.Address, message); err != nil {
		return fmt.Errorf("send mail by %s: %w", m.addr, cmp.Or(ctx.Err(), err))
	}
	return nil
}

// deliver hands the message to the server and leaves it.
func deliver(conn net.Conn, from, to string, message []byte) error {
	client, err := smtp.NewClient(conn, conn.RemoteAddr().String())
	if err != nil {
		return err
	}
	if err := client.Mail(from); err != nil {
		return err
	}
	if err := client.Rcpt(to); err != nil {
		return err
	}
	data, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := data.Write(message); err != nil {
		return err
	}
	if err := data.Close(); err != nil {
		return err
	}
	return client.Quit()
}

// message is the mail as it travels. What a model wrote cannot add a header: an
// address that was parsed is written anew, and a subject that is not plain ASCII
// on one line is encoded.
func (m mailer) message(to *mail.Address, subject, body string) ([]byte, error) {
	var b bytes.Buffer
	for _, header := range [][2]string{
		{"From", m.from.String()},
		{"To", to.String()},
		{"Subject", mime.QEncoding.Encode("utf-8", subject)},
		{"Date", time.Now().Format(time.RFC1123Z)},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		b.WriteString(header[0] + ": " + header[1] + "\r\n")
	}
	b.WriteString("\r\n")
	text := quotedprintable.NewWriter(&b)
	if _, err := text.Write([]byte(body)); err != nil {
		return nil, err
	}
	if err := text.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
