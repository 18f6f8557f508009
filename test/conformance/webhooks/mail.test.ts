/** Owners are told by e-mail, over a real SMTP server. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { makeCertificate, opensslMissing } from '../../helpers/certificates.ts';
import { answer } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { type Stage, stage } from './stage.ts';

const PASSWORD = 'p@ss:word/%';
const LOGIN = `robot:${encodeURIComponent(PASSWORD)}`;
const NOTICES = '/v0/webhooks/notifications';

interface Mailbox {
  readonly port: number;
  readonly mails: readonly { readonly to: readonly string[]; readonly text: string; readonly secure: boolean }[];
  readonly logins: readonly string[];
}

/** A server that takes one user; `take` may refuse a recipient. */
async function mailbox(
  t: TestContext,
  options: SMTPServerOptions = {},
  take: () => { readonly responseCode: number } | null = () => null,
): Promise<Mailbox> {
  const mails: { to: string[]; text: string; secure: boolean }[] = [];
  const logins: string[] = [];
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    onAuth({ username, password }, _session, callback) {
      logins.push(`${username}:${password}`);
      if (password === PASSWORD) callback(null, { user: username! });
      else callback(new Error(`wrong password ${password}`));
    },
    onRcptTo(_address, _session, callback) {
      const refusal = take();
      callback(refusal === null ? null : Object.assign(new Error('refused'), refusal));
    },
    onData(stream, session, callback) {
      const parts: Buffer[] = [];
      stream.on('data', (part: Buffer) => parts.push(part));
      stream.on('end', () => {
        const to = session.envelope.rcptTo.map(({ address }) => address);
        mails.push({ to, text: Buffer.concat(parts).toString(), secure: session.secure === true });
        callback(null);
      });
    },
    ...options,
  });
  // A client that breaks off is no error of the test.
  server.on('error', () => {});
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  t.after(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return { port: (server.server.address() as AddressInfo).port, mails, logins };
}

const quick = { durable: { steps: [0.01, 0.01, 0.01, 0.01], jitter: 0, timeoutMs: 10_000 } };
const withMail = (t: TestContext, server: string, more: object = {}) =>
  stage(t, { webhooks: { retry: quick, email: { server, from: 'robot@example.org' }, ...more } });

/** Sets the address, and makes a webhook whose receiver answers 410: it is switched off at once. */
async function switchOff(it: Stage, name = 'Deposits'): Promise<void> {
  const contact = { url: 'mailto:ada@example.org', format: 'email' };
  assert.deepEqual((await it.call('PUT', NOTICES, contact)).body, contact);
  it.receiver.route('/hook', answer(410));
  await it.create({ name, webhookURL: `${it.receiver.url}/hook` });
  await it.event(name);
}
const jobs = (it: Stage) => it.outbox.list({ kind: 'webhooks.owner' });

test('the owner is told by e-mail when a webhook fails and when it is switched off', async (t) => {
  const box = await mailbox(t);
  const it = await withMail(t, `smtp://${LOGIN}@127.0.0.1:${box.port}`);
  // A bare address does.
  const contact = { url: 'mailto:ada@example.org', format: 'email' };
  assert.deepEqual((await it.call('PUT', NOTICES, { ...contact, url: 'ada@example.org' })).body, contact);
  assert.deepEqual((await it.call('GET', NOTICES)).body, contact);
  const name = 'Zahlungen für Ada';
  const { webhookID } = await it.create({ name, webhookURL: `${it.receiver.url}/hook` });
  it.receiver.route('/hook', answer(500));
  await it.event('a');
  await until(() => box.mails.length === 1, 'an e-mail');
  it.receiver.route('/hook', answer(410));
  await it.event('b');
  await until(() => box.mails.length === 2, 'two e-mails');
  const [failing, off] = box.mails.map(({ to, text }) => {
    assert.deepEqual(to, ['ada@example.org']);
    // Without the soft line breaks of quoted-printable.
    return text.replaceAll(/(?<!\?)=\r\n/g, '');
  });
  assert.match(failing!, /^From: robot@example\.org\r$/m);
  assert.match(failing!, /^To: ada@example\.org\r$/m);
  assert.match(failing!, /^Auto-Submitted: auto-generated\r$/m);
  assert.match(failing!, /^Message-ID: <evt_[0-9a-f]{32}@example\.org>\r$/m);
  // The name is encoded, the rest of the text is readable as it came.
  assert.match(failing!, /^Subject: =\?UTF-8\?Q\?Webhook_Zahlungen_f=C3=BCr_Ada_/m);
  assert.ok(failing!.includes(webhookID));
  assert.match(off!, /switched off because its receiver kept failing/);
  assert.deepEqual(box.logins, [`robot:${PASSWORD}`, `robot:${PASSWORD}`]);
  await until(async () => (await jobs(it)).filter(({ state }) => state === 'done').length === 2, 'both are done');
  const rows = await jobs(it);
  assert.ok(!JSON.stringify([it.log.lines, rows]).includes(PASSWORD));
});

test('TLS from the start and STARTTLS; a server that cannot prove who it is never sees the password', {
  skip: opensslMissing() ?? false,
}, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-mail-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const { key, cert } = makeCertificate();
  const certFile = join(dir, 'ca.pem');
  writeFileSync(certFile, cert);
  for (const scheme of ['smtps', 'smtp']) {
    const secure = scheme === 'smtps';
    const box = await mailbox(t, { secure, key, cert, disabledCommands: [], allowInsecureAuth: false });
    const server = `${scheme}://${LOGIN}@localhost:${box.port}`;
    const stranger = await withMail(t, server);
    await switchOff(stranger);
    await until(async () => (await jobs(stranger))[0]?.state === 'failed', 'it is given up');
    assert.match((await jobs(stranger))[0]?.error ?? '', /^e-mail: E[A-Z]+$/);
    assert.deepEqual([box.mails.length, box.logins], [0, []]);
    const it = await withMail(t, server, { caFile: certFile });
    await switchOff(it);
    await until(() => box.mails.length === 1, scheme);
    assert.deepEqual([box.mails[0]?.secure, box.logins], [true, [`robot:${PASSWORD}`]]);
  }
});

test('an address that is refused is given up, a server that is busy is asked again with the same id', async (t) => {
  const replies = [{ responseCode: 451 }, { responseCode: 451 }, null];
  const busy = await mailbox(t, {}, () => replies.shift() ?? null);
  const it = await withMail(t, `smtp://${LOGIN}@127.0.0.1:${busy.port}`);
  await switchOff(it);
  await until(() => busy.mails.length === 1, 'the third attempt');
  assert.equal(busy.logins.length, 3);

  const strict = await mailbox(t, {}, () => ({ responseCode: 550 }));
  const other = await withMail(t, `smtp://${LOGIN}@127.0.0.1:${strict.port}`);
  await switchOff(other);
  await until(async () => (await jobs(other))[0]?.state === 'failed', 'it is given up');
  assert.deepEqual([(await jobs(other))[0]?.error, strict.logins.length], ['e-mail: EENVELOPE 550', 1]);

  const wrong = await withMail(t, `smtp://robot:other-secret@127.0.0.1:${strict.port}`);
  await switchOff(wrong);
  await until(async () => (await jobs(wrong))[0]?.state === 'failed', 'the log-in is refused');
  const [row] = await jobs(wrong);
  assert.deepEqual([row?.error, row?.attempts], ['e-mail: EAUTH 535', 5]);
  assert.ok(!JSON.stringify([wrong.log.lines, row]).includes('other-secret'));
});

test('a project gets no more e-mails in an hour than it may', async (t) => {
  const box = await mailbox(t);
  const server = `smtp://${LOGIN}@127.0.0.1:${box.port}`;
  const it = await stage(t, { webhooks: { retry: quick, email: { server, from: 'robot@example.org', perHour: 2 } } });
  for (const name of ['a', 'b', 'c']) await switchOff(it, name);
  const left = () => it.log.lines.filter(({ message }) => /had its share of the hour/.test(message)).length;
  await until(() => left() >= 1 && box.mails.length === 2, 'two e-mails and a line of the log');
  assert.equal((await jobs(it)).length, 2);
});

test('what is no address, or no server, is refused', async (t) => {
  const it = await withMail(t, 'smtp://127.0.0.1:9');
  for (const url of [
    'ada',
    'mailto:',
    'ada@example',
    'ada@example.org, bob@example.org',
    'Ada <ada@example.org>',
    'ada@example.org\r\nBcc: bob@example.org',
    'mailto:ada@example.org?cc=bob@example.org',
    7,
  ]) {
    const { status, body } = await it.call('PUT', NOTICES, { url, format: 'email' });
    assert.deepEqual(
      [status, (body as { error: string }).error],
      [400, 'url must be one e-mail address, such as mailto:ada@example.org'],
    );
  }
  const without = await stage(t);
  const { status, body } = await without.call('PUT', NOTICES, { url: 'ada@example.org', format: 'email' });
  assert.deepEqual([status, /this daemon sends no e-mails/.test((body as { error: string }).error)], [400, true]);
  for (const server of ['http://x', 'smtp://', `smtp://robot:%zz${PASSWORD}@x`])
    await assert.rejects(withMail(t, server), (error: Error) => {
      assert.match(error.message, /^webhooks\.email cannot be used: server/);
      return !error.message.includes(PASSWORD);
    });
});
