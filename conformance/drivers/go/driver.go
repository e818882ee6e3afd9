// A driver of Pulsar's Go client, for pulsar-conformance. docs/driver-protocol.md specifies the protocol.
//
// It uses only the public API that all releases since 0.10.0 have. Options that are newer are set by name, and declared
// only where they exist. Each producer performs its requests in order; each other request has a goroutine of its own.
//
// The client has no way to cut its connections, so the driver does not declare "abort".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/sirupsen/logrus"
)

const (
	modulePath  = "github.com/apache/pulsar-client-go"
	flushBegins = 50 * time.Millisecond // how long a send waits for the flush before it: a flush blocks
	anyNumber   = 1000                  // of incomplete messages, for which the client makes room
	waiting     = 100_000               // how many requests of a producer may wait for it
)

var features = []string{"batching", "chunking", "compression", "cumulative-ack", "key-shared", "last-sequence-id",
	"nack", "ordering-key", "redelivery-count", "sequence-id", "tls", "token"}

// Features by the option of a consumer that they need.
var options = map[string]string{
	"ack-oldest-chunked":       "AutoAckIncompleteChunk",
	"batch-index-ack":          "EnableBatchIndexAcknowledgment",
	"max-pending-chunked":      "MaxPendingChunkedMessage",
	"replicated-subscriptions": "ReplicateSubscriptionState",
}

type request struct {
	Type              string            `json:"type"`
	ID                int64             `json:"id"`
	Client            string            `json:"client"`
	Producer          string            `json:"producer"`
	Consumer          string            `json:"consumer"`
	Name              string            `json:"name"`
	TimeoutMs         int64             `json:"timeout_ms"`
	URL               string            `json:"url"`
	Token             string            `json:"token"`
	TrustCertsFile    string            `json:"trust_certs_file"`
	AllowInsecure     bool              `json:"allow_insecure"`
	VerifyHostname    bool              `json:"verify_hostname"`
	Topic             string            `json:"topic"`
	SendTimeoutMs     int64             `json:"send_timeout_ms"`
	InitialSequenceID *int64            `json:"initial_sequence_id"`
	Batching          bool              `json:"batching"`
	BatchDelayMs      int64             `json:"batch_delay_ms"`
	BatchMessages     uint              `json:"batch_messages"`
	Chunking          bool              `json:"chunking"`
	Compression       string            `json:"compression"`
	Payload           []byte            `json:"payload"`
	SequenceID        *int64            `json:"sequence_id"`
	Key               string            `json:"key"`
	OrderingKey       string            `json:"ordering_key"`
	Properties        map[string]string `json:"properties"`
	Subscription      string            `json:"subscription"`
	Kind              string            `json:"kind"`
	Initial           string            `json:"initial"`
	Queue             int               `json:"queue"`
	NackDelayMs       int64             `json:"nack_delay_ms"`
	BatchIndexAck     bool              `json:"batch_index_ack"`
	MaxPendingChunked int               `json:"max_pending_chunked"`
	AckOldestChunked  bool              `json:"ack_oldest_chunked"`
	Replicated        bool              `json:"replicated"`
	Message           int               `json:"message"`
	Cumulative        bool              `json:"cumulative"`
	Request           int64             `json:"request"`
}

type answer map[string]any

type producer struct {
	pulsar.Producer
	requests chan *request
}

type consumer struct {
	pulsar.Consumer
	lock     sync.Mutex
	received []pulsar.MessageID // by their numbers
}

type driver struct {
	writing   sync.Mutex
	out       io.Writer
	lock      sync.Mutex
	clients   map[string]pulsar.Client
	producers map[string]*producer
	consumers map[string]*consumer
	receiving map[int64]waitingReceive
}

type waitingReceive struct {
	context.Context
	cancel context.CancelFunc
}

func main() {
	logrus.SetLevel(logrus.ErrorLevel) // to standard error
	d := &driver{out: os.Stdout, clients: map[string]pulsar.Client{}, producers: map[string]*producer{},
		consumers: map[string]*consumer{}, receiving: map[int64]waitingReceive{}}
	lines := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		d.take(line)
	}
}

func (d *driver) take(line []byte) {
	r := &request{VerifyHostname: true, Queue: 1000, NackDelayMs: 60_000, MaxPendingChunked: 10}
	if err := json.Unmarshal(line, r); err != nil {
		d.say(r, answer{"type": "error", "message": err.Error()})
		return
	}
	switch r.Type {
	case "send", "flush":
		d.lock.Lock()
		named, isThere := d.producers[r.Producer]
		d.lock.Unlock()
		if !isThere {
			d.say(r, missing(r.Producer))
			return
		}
		named.requests <- r
	case "receive":
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.TimeoutMs)*time.Millisecond)
		d.lock.Lock()
		d.receiving[r.ID] = waitingReceive{ctx, cancel}
		d.lock.Unlock()
		go func() { d.say(r, d.receive(r, ctx)) }()
	default:
		go func() { d.say(r, d.perform(r)) }()
	}
}

func (d *driver) say(r *request, a answer) {
	a["id"] = r.ID
	line, err := json.Marshal(a)
	if err != nil {
		line = []byte(fmt.Sprintf(`{"type":"error","id":%d,"message":"the answer is no JSON"}`, r.ID))
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	_, _ = d.out.Write(append(line, '\n'))
}

func (d *driver) perform(r *request) answer {
	switch r.Type {
	case "hello":
		return answer{"type": "hello", "protocol": 1, "client": "go", "version": version(), "features": declared()}
	case "connect":
		return d.connect(r)
	case "open-producer":
		return d.open(r)
	case "subscribe":
		return d.subscribe(r)
	case "last-sequence-id":
		if named := d.producer(r.Producer); named != nil {
			return answer{"type": "sequence-id", "last_sequence_id": named.LastSequenceID()}
		}
		return missing(r.Producer)
	case "acknowledge", "nack", "unsubscribe":
		if named := d.consumer(r.Consumer); named != nil {
			return named.perform(r)
		}
		return missing(r.Consumer)
	case "close":
		return d.close(r.Name)
	case "cancel":
		d.lock.Lock()
		defer d.lock.Unlock()
		if waits, isThere := d.receiving[r.Request]; isThere {
			waits.cancel()
		}
		return answer{"type": "done"}
	}
	return answer{"type": "error", "message": "the Go client cannot perform " + r.Type}
}

func version() string {
	if built, isKnown := debug.ReadBuildInfo(); isKnown {
		for _, module := range built.Deps {
			if module.Path == modulePath {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "unknown"
}

func declared() []string {
	there := append([]string{}, features...)
	consumerOptions := reflect.TypeOf(pulsar.ConsumerOptions{})
	for feature, option := range options {
		if _, isThere := consumerOptions.FieldByName(option); isThere {
			there = append(there, feature)
		}
	}
	return there
}

func (d *driver) connect(r *request) answer {
	timeout := time.Duration(r.TimeoutMs) * time.Millisecond
	wanted := pulsar.ClientOptions{URL: r.URL, OperationTimeout: timeout, ConnectionTimeout: timeout,
		TLSTrustCertsFilePath: r.TrustCertsFile, TLSAllowInsecureConnection: r.AllowInsecure,
		TLSValidateHostname: r.VerifyHostname && !r.AllowInsecure}
	if r.Token != "" {
		wanted.Authentication = pulsar.NewAuthenticationToken(r.Token)
	}
	client, err := pulsar.NewClient(wanted)
	if err != nil {
		return failed(err)
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.clients[r.Client] = client
	return answer{"type": "done"}
}

func (d *driver) open(r *request) answer {
	client := d.client(r.Client)
	if client == nil {
		return missing(r.Client)
	}
	if r.InitialSequenceID != nil {
		return answer{"type": "error", "message": "the Go client has no initial sequence id"}
	}
	wanted := pulsar.ProducerOptions{Topic: r.Topic, Name: r.Name, SendTimeout: -1, DisableBatching: !r.Batching,
		EnableChunking: r.Chunking, CompressionType: compression(r.Compression)}
	if r.SendTimeoutMs > 0 {
		wanted.SendTimeout = time.Duration(r.SendTimeoutMs) * time.Millisecond
	}
	if r.Batching {
		wanted.BatchingMaxPublishDelay = time.Duration(max(1, r.BatchDelayMs)) * time.Millisecond
		wanted.BatchingMaxMessages = r.BatchMessages
	}
	opened, err := client.CreateProducer(wanted)
	if err != nil {
		return failed(err)
	}
	named := &producer{opened, make(chan *request, waiting)}
	d.lock.Lock()
	d.producers[r.Producer] = named
	d.lock.Unlock()
	go d.produce(named)
	return answer{"type": "opened", "name": opened.Name(), "last_sequence_id": opened.LastSequenceID()}
}

func compression(name string) pulsar.CompressionType {
	switch name {
	case "lz4":
		return pulsar.LZ4
	case "zlib":
		return pulsar.ZLib
	}
	return pulsar.NoCompression
}

// Performs the sends and flushes of a producer.
func (d *driver) produce(named *producer) {
	for r := range named.requests {
		if r.Type == "flush" {
			d.flush(named, r)
		} else {
			d.send(named, r)
		}
	}
}

func (d *driver) send(named *producer, r *request) {
	message := &pulsar.ProducerMessage{Payload: r.Payload, Key: r.Key, OrderingKey: r.OrderingKey,
		Properties: r.Properties, SequenceID: r.SequenceID}
	named.SendAsync(context.Background(), message, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
		if err != nil {
			d.say(r, failed(err))
		} else {
			d.say(r, positioned(id, answer{"type": "sent"}))
		}
	})
}

func (d *driver) flush(named *producer, r *request) {
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		if err := named.Flush(); err != nil {
			d.say(r, failed(err))
		} else {
			d.say(r, answer{"type": "done"})
		}
	}()
	select {
	case <-flushed:
	case <-time.After(flushBegins):
	}
}

func (d *driver) subscribe(r *request) answer {
	client := d.client(r.Client)
	if client == nil {
		return missing(r.Client)
	}
	wanted := pulsar.ConsumerOptions{Topic: r.Topic, SubscriptionName: r.Subscription, Type: kind(r.Kind), Name: r.Name,
		ReceiverQueueSize: r.Queue, NackRedeliveryDelay: time.Duration(r.NackDelayMs) * time.Millisecond,
		MaxPendingChunkedMessage: r.MaxPendingChunked, AutoAckIncompleteChunk: r.AckOldestChunked,
		ReplicateSubscriptionState: r.Replicated}
	if r.MaxPendingChunked == 0 {
		wanted.MaxPendingChunkedMessage = anyNumber
	}
	if r.Initial == "earliest" {
		wanted.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	}
	fields := reflect.ValueOf(&wanted).Elem()
	if r.BatchIndexAck {
		fields.FieldByName("EnableBatchIndexAcknowledgment").SetBool(true)
	}
	if queueless := fields.FieldByName("EnableZeroQueueConsumer"); r.Queue == 0 && queueless.IsValid() {
		queueless.SetBool(true)
	} else if r.Queue == 0 {
		wanted.ReceiverQueueSize = 1
	}
	subscribed, err := client.Subscribe(wanted)
	if err != nil {
		return failed(err)
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.consumers[r.Consumer] = &consumer{Consumer: subscribed}
	return answer{"type": "done"}
}

func kind(name string) pulsar.SubscriptionType {
	switch name {
	case "Shared":
		return pulsar.Shared
	case "Failover":
		return pulsar.Failover
	case "Key_Shared":
		return pulsar.KeyShared
	}
	return pulsar.Exclusive
}

func (d *driver) receive(r *request, ctx context.Context) answer {
	defer func() {
		d.lock.Lock()
		defer d.lock.Unlock()
		d.receiving[r.ID].cancel()
		delete(d.receiving, r.ID)
	}()
	named := d.consumer(r.Consumer)
	if named == nil {
		return missing(r.Consumer)
	}
	message, err := named.Receive(ctx)
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && message == nil:
		return answer{"type": "cancelled"}
	case ctx.Err() != nil && message == nil:
		return answer{"type": "nothing"}
	case err != nil:
		return failed(err)
	}
	named.lock.Lock()
	defer named.lock.Unlock()
	named.received = append(named.received, message.ID())
	shown := answer{"type": "message", "message": len(named.received) - 1, "payload": message.Payload(),
		"topic": message.Topic(), "producer": message.ProducerName(), "properties": message.Properties(),
		"redelivery_count": message.RedeliveryCount()}
	if message.Key() != "" {
		shown["key"] = message.Key()
	}
	if message.OrderingKey() != "" {
		shown["ordering_key"] = message.OrderingKey()
	}
	return positioned(message.ID(), shown)
}

func (c *consumer) perform(r *request) answer {
	var err error
	switch {
	case r.Type == "unsubscribe":
		err = c.Unsubscribe()
	case r.Type == "nack":
		c.NackID(c.id(r.Message))
	case r.Cumulative:
		err = c.AckIDCumulative(c.id(r.Message))
	default:
		err = c.AckID(c.id(r.Message))
	}
	if err != nil {
		return failed(err)
	}
	return answer{"type": "done"}
}

func (c *consumer) id(number int) pulsar.MessageID {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.received[number]
}

func (d *driver) close(name string) answer {
	d.lock.Lock()
	client, producer, consumer := d.clients[name], d.producers[name], d.consumers[name]
	delete(d.clients, name)
	delete(d.producers, name)
	delete(d.consumers, name)
	d.lock.Unlock()
	switch {
	case producer != nil:
		producer.Close()
		close(producer.requests)
	case consumer != nil:
		consumer.Close()
	case client != nil:
		client.Close()
	default:
		return missing(name)
	}
	return answer{"type": "done"}
}

func (d *driver) client(name string) pulsar.Client {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.clients[name]
}

func (d *driver) producer(name string) *producer {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.producers[name]
}

func (d *driver) consumer(name string) *consumer {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.consumers[name]
}

func positioned(id pulsar.MessageID, a answer) answer {
	a["ledger"], a["entry"], a["batch_index"] = id.LedgerID(), id.EntryID(), id.BatchIdx()
	return a
}

func missing(name string) answer {
	return answer{"type": "error", "message": "there is no " + name}
}

var serverError = regexp.MustCompile(`server error: (\w+): `)

// Errors whose names in Pulsar's protocol are not those of the client.
var codes = map[string]string{"BrokerMetadataError": "MetadataError", "BrokerPersistenceError": "PersistenceError",
	"ServiceUnitNotReady": "ServiceNotReady", "TooManyLookupRequestException": "TooManyRequests",
	"TopicTerminated": "TopicTerminatedError"}

// What the client said no with. The broker's error is only in its text.
func failed(err error) answer {
	text := err.Error()
	if found := serverError.FindStringSubmatch(text); found != nil {
		return answer{"type": "refused", "code": found[1], "message": text}
	}
	var known *pulsar.Error
	if errors.As(err, &known) {
		switch known.Result() {
		case pulsar.TimeoutError:
			return answer{"type": "gave-up", "why": "timeout", "message": text}
		case pulsar.UnknownError, pulsar.ConnectError, pulsar.ReadError, pulsar.NotConnectedError,
			pulsar.AlreadyClosedError, pulsar.ConsumerClosed, pulsar.ProducerClosed:
		default:
			name := text[strings.LastIndex(text, " ")+1:]
			if code, isOther := codes[name]; isOther {
				name = code
			}
			return answer{"type": "refused", "code": name, "message": text}
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || strings.Contains(text, "timed out") {
		return answer{"type": "gave-up", "why": "timeout", "message": text}
	}
	return answer{"type": "gave-up", "why": "disconnected", "message": text}
}
