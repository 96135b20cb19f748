package interop

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdg "github.com/xdg-go/scram"
)

// settings are those of a client, by librdkafka's names.
type settings map[string]string

func (s settings) pairs() (pairs []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		pairs = append(pairs, name+"="+s[name])
	}
	return pairs
}

// clientLogin is a client that sends one record and reads it back. An error that says
// "refused" is a refusal of the login; others are mistakes.
type clientLogin struct {
	name string
	try  func(c *cluster, value string, s settings) error
	// without are mechanisms that the client cannot use, with the reason.
	without map[string]string
}

// What librdkafka before 2.6.1 sends last of SCRAM is not what RFC 5802 says.
var noSCRAM = map[string]string{
	"SCRAM-SHA-256": "repeats its own nonce in its last message", "SCRAM-SHA-512": "repeats its own nonce in its last message",
}

var clientLogins = []clientLogin{
	{name: "franz-go", try: franzLogin},
	{name: "Sarama", try: saramaLogin},
	{name: "Java", try: javaLogin},
	{name: "confluent-kafka 2.0.2", try: confluentLogin("python/confluent-2.0.2/requirements.txt"), without: noSCRAM},
	{name: "confluent-kafka 2.5.3", try: confluentLogin("python/confluent-2.5.3/requirements.txt"), without: noSCRAM},
	{name: "confluent-kafka 2.8.2", try: confluentLogin("python/confluent-2.8.2/requirements.txt")},
	{name: "confluent-kafka", try: confluentLogin("python/requirements.txt")},
	{name: "kafka-python", try: kafkaPythonLogin},
	{name: "kafkajs", try: kafkajsLogin},
	{name: "kcat", try: kcatLogin, without: noSCRAM},
}

// Each client logs in by each mechanism that it has, on the ports that allow it, and
// learns that a wrong password is refused.
func TestEachClientLogsIn(t *testing.T) {
	may := [][2]string{{"append,read", "log/orders"}, {"read", "group/*"}}
	unencrypted, encrypted := enforced(t, may...), enforcedByTLS(t, may...)
	ways := []struct {
		on       *cluster
		name     string
		settings settings
	}{
		{unencrypted, "SCRAM-SHA-256", settings{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}},
		{unencrypted, "SCRAM-SHA-512", settings{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}},
		{encrypted, "SCRAM-SHA-256", settings{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}},
		{encrypted, "SCRAM-SHA-512", settings{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}},
		{encrypted, "PLAIN", settings{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}},
		{encrypted, "a certificate", settings{"security.protocol": "SSL"}},
	}
	for _, client := range clientLogins {
		t.Run(client.name, func(t *testing.T) {
			for _, way := range ways {
				protocol := way.settings["security.protocol"]
				t.Run(way.name+" on "+protocol, func(t *testing.T) {
					on := *way.on
					on.T = t
					s := maps.Clone(way.settings)
					if protocol != "SASL_PLAINTEXT" {
						s["ssl.ca.location"] = filepath.Join(on.certificates, "ca.crt")
					}
					if protocol == "SSL" {
						s["ssl.certificate.location"] = filepath.Join(on.certificates, "user-alice.crt")
						s["ssl.key.location"] = filepath.Join(on.certificates, "user-alice.key")
					} else {
						s["sasl.username"], s["sasl.password"] = "alice", secret
					}
					value := fmt.Sprint(client.name, " by ", way.name, " on ", protocol)
					err := client.try(&on, value, s)
					if why := client.without[way.name]; why != "" {
						require.ErrorContains(t, err, "refused", "%s works, though it %s", client.name, why)
						return
					}
					require.NoError(t, err)
					require.Equal(t, value, on.newest())
					if protocol != "SSL" {
						s["sasl.password"] = "another-password"
						require.ErrorContains(t, client.try(&on, "never", s), "refused")
					}
				})
			}
		})
	}
}

// enforcedByTLS is like enforced, with TLS on all ports.
func enforcedByTLS(t *testing.T, toAlice ...[2]string) *cluster {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	dir := t.TempDir()
	make := func(args ...string) {
		must(t, time.Minute, dir, path, append(append([]string{"certs"}, args...), "--dir", dir)...)
	}
	make("ca", "--cluster", "interop")
	make("node", "n1", "--host", "127.5.103.1")
	make("user", "root")
	make("user", "alice")
	file := func(name string) string { return filepath.Join(dir, name) }
	c := startAt(t, "127.5.103.%d", 1, func(int) []string {
		return []string{"--node-name", "n1", "--tls-ca", file("ca.crt"), "--tls-cert", file("node-n1.crt"), "--tls-key", file("node-n1.key"), "--client-ca", file("ca.crt")}
	})
	c.certificates = dir
	c.flags = []string{"--tls-ca", file("ca.crt"), "--tls-cert", file("user-root.crt"), "--tls-key", file("user-root.key")}
	c.enforce(toAlice...)
	return c
}

// newest is the value of the newest record of "orders", read as root.
func (c *cluster) newest() string {
	c.Helper()
	options := []kgo.Opt{
		kgo.SASL(scram.Auth{User: "root", Pass: secret}.AsSha256Mechanism()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtEnd().Relative(-1)}}),
	}
	if c.certificates != "" {
		options = append(options, kgo.DialTLSConfig(settings{"ssl.ca.location": filepath.Join(c.certificates, "ca.crt")}.tls(c.T)))
	}
	fetches := c.franz(options...).PollRecords(c.Context(), 1)
	require.NoError(c, fetches.Err())
	return string(fetches.Records()[0].Value)
}

func franzLogin(c *cluster, value string, s settings) error {
	options := []kgo.Opt{kgo.DefaultProduceTopic("orders")}
	var mechanism sasl.Mechanism
	switch user, password := s["sasl.username"], s["sasl.password"]; s["sasl.mechanism"] {
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	case "PLAIN":
		mechanism = plain.Auth{User: user, Pass: password}.AsMechanism()
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	if config := s.tls(c.T); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	client := c.franz(options...)
	// A producer tries to log in for as long as it has records.
	if err := client.Ping(c.Context()); errors.Is(err, kerr.SaslAuthenticationFailed) {
		return fmt.Errorf("refused: %w", err)
	}
	sent, err := client.ProduceSync(c.Context(), kgo.StringRecord(value)).First()
	if err != nil {
		return err
	}
	reader := c.franz(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(sent.Offset)}}))...)
	fetches := reader.PollRecords(c.Context(), 1)
	require.NoError(c, fetches.Err())
	require.Equal(c, value, string(fetches.Records()[0].Value))
	return nil
}

func saramaLogin(c *cluster, value string, s settings) error {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Metadata.Retry.Max = 0
	if mechanism := s["sasl.mechanism"]; mechanism != "" {
		config.Net.SASL.Enable, config.Net.SASL.Version = true, sarama.SASLHandshakeV1
		config.Net.SASL.Mechanism, config.Net.SASL.User, config.Net.SASL.Password = sarama.SASLMechanism(mechanism), s["sasl.username"], s["sasl.password"]
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &saramaSCRAM{mechanism: mechanism} }
	}
	if t := s.tls(c.T); t != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, t
	}
	client, err := sarama.NewClient(strings.Split(c.bootstrap, ","), config)
	if err != nil {
		return saramaRefusal(err)
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	require.NoError(c, err)
	defer producer.Close()
	_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "orders", Value: sarama.StringEncoder(value)})
	if err != nil {
		return saramaRefusal(err)
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	require.NoError(c, err)
	require.Equal(c, value, consumePartition(c, consumer, "orders", offset, 1)[0].Value)
	return nil
}

// saramaSCRAM is the half of a login that Sarama leaves to others.
type saramaSCRAM struct {
	mechanism string
	*xdg.ClientConversation
}

func (s *saramaSCRAM) Begin(user, password, _ string) error {
	generator := xdg.SHA256
	if s.mechanism == "SCRAM-SHA-512" {
		generator = xdg.SHA512
	}
	client, err := generator.NewClient(user, password, "")
	if err != nil {
		return err
	}
	s.ClientConversation = client.NewConversation()
	return nil
}

func saramaRefusal(err error) error {
	if strings.Contains(err.Error(), "SASL Authentication failed") || errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
		return fmt.Errorf("refused: %w", err)
	}
	return err
}

func javaLogin(c *cluster, value string, s settings) error {
	java, dir := jars(c.T)
	found := map[string]string{"security.protocol": s["security.protocol"]}
	if mechanism := s["sasl.mechanism"]; mechanism != "" {
		module := "org.apache.kafka.common.security.scram.ScramLoginModule"
		if mechanism == "PLAIN" {
			module = "org.apache.kafka.common.security.plain.PlainLoginModule"
		}
		found["sasl.mechanism"] = mechanism
		found["sasl.jaas.config"] = fmt.Sprintf("%s required username=%q password=%q;", module, s["sasl.username"], s["sasl.password"])
	}
	if ca := s["ssl.ca.location"]; ca != "" {
		found["ssl.truststore.type"], found["ssl.truststore.location"] = "PEM", ca
	}
	if certificate := s["ssl.certificate.location"]; certificate != "" {
		both, err := os.ReadFile(s["ssl.key.location"])
		require.NoError(c, err)
		chain, err := os.ReadFile(certificate)
		require.NoError(c, err)
		path := filepath.Join(c.TempDir(), "both.pem")
		require.NoError(c, os.WriteFile(path, append(both, chain...), 0o600))
		found["ssl.keystore.type"], found["ssl.keystore.location"] = "PEM", path
	}
	command := exec.Command(java, "-Xmx256m", "-cp", "lib/*", absolute(c.T, "java/Login.java"), c.bootstrap, "orders", value, properties(c.T, found))
	command.Dir = dir
	return outcome(command)
}

func confluentLogin(manifest string) func(*cluster, string, settings) error {
	return func(c *cluster, value string, s settings) error {
		return pythonLogin(c, python(c.T, manifest), "confluent", value, s)
	}
}

func kafkaPythonLogin(c *cluster, value string, s settings) error {
	return pythonLogin(c, python(c.T, "python/requirements.txt"), "kafka-python", value, s)
}

func pythonLogin(c *cluster, interpreter, client, value string, s settings) error {
	return outcome(exec.Command(interpreter, append([]string{absolute(c.T, "python/login.py"), client, c.bootstrap, "orders", value}, s.pairs()...)...))
}

func kafkajsLogin(c *cluster, value string, s settings) error {
	node, script := javascript(c.T, "login.mjs")
	return outcome(exec.Command(node, append([]string{script, c.bootstrap, "orders", value}, s.pairs()...)...))
}

func kcatLogin(c *cluster, value string, s settings) error {
	args := []string{"-b", c.bootstrap, "-t", "orders", "-p", "0", "-X", "message.timeout.ms=20000"}
	for _, pair := range s.pairs() {
		args = append(args, "-X", pair)
	}
	kcat := tool(c.T, "kcat")
	produce := exec.Command(kcat, append(args, "-P")...)
	produce.Stdin = strings.NewReader(value)
	if err := outcome(produce); err != nil {
		if strings.Contains(err.Error(), "SASL authentication error") {
			return fmt.Errorf("refused: %w", err)
		}
		return err
	}
	require.Equal(c, value+"\n", must(c.T, scenarioTime, "", kcat, append(args, "-C", "-q", "-e", "-o", "-1")...))
	return nil
}

// outcome runs a program that prints why it fails.
func outcome(command *exec.Cmd) error {
	stop := time.AfterFunc(scenarioTime, func() { _ = command.Process.Kill() })
	defer stop.Stop()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func (s settings) tls(t *testing.T) *tls.Config {
	t.Helper()
	ca := s["ssl.ca.location"]
	if ca == "" {
		return nil
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	authorities, err := os.ReadFile(ca)
	require.NoError(t, err)
	require.True(t, config.RootCAs.AppendCertsFromPEM(authorities))
	if certificate := s["ssl.certificate.location"]; certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, s["ssl.key.location"])
		require.NoError(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}
