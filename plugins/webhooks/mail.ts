/** Notices as e-mails, over the operator's server. The library is loaded with the first one. */

import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { rootCertificates } from 'node:tls';
import { EXIT } from '../../src/lib/coded-error.ts';
import { CodedError } from '../../src/plugin/plugin.ts';
import { loadOptional } from '../../src/runtime/optional-package.ts';
import { WEBHOOKS_ERRORS, type WebhooksConfig } from './config.ts';

/** One text to one address. */
export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  /** Unique and the same for each attempt, so that a mailbox shows a repeated one once. */
  readonly id: string;
}

/** Null: the server has taken it. `isFinal`: it will never take this one. */
export type MailResult = { readonly error: string; readonly isFinal: boolean } | null;

export interface Mailer {
  /** Loads the library. Errors: WEBHOOKS_EMAIL. */
  ready(): Promise<void>;
  send(mail: Mail, timeoutMs: number, signal: AbortSignal): Promise<MailResult>;
}

/** What is used of nodemailer. */
interface Nodemailer {
  createTransport(options: object): {
    sendMail(mail: object): Promise<unknown>;
    close(): void;
  };
}

const PACKAGE = { name: 'nodemailer', version: '10.6.0' };
const PORTS = { 'smtp:': 587, 'smtps:': 465 } as const;

const refused = (reason: string): CodedError =>
  new CodedError('WEBHOOKS_EMAIL', `${WEBHOOKS_ERRORS.WEBHOOKS_EMAIL}: ${reason}`, { exitCode: EXIT.config });

interface MailServer {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  /** Whether the connection is given up if it cannot be encrypted before anything is told. */
  readonly requireTLS: boolean;
  readonly auth?: { readonly user: string; readonly pass: string };
}

/** `smtp://[USER:PASSWORD@]HOST[:PORT]` with STARTTLS, or `smtps://` with TLS from the start. Errors: WEBHOOKS_EMAIL, without the text. */
function serverOf(text: string): MailServer {
  const url = URL.canParse(text) ? new URL(text) : null;
  const usual = PORTS[(url?.protocol ?? '') as keyof typeof PORTS];
  if (url === null || usual === undefined || url.hostname === '')
    throw refused('server must be smtp://USER:PASSWORD@HOST:PORT or smtps://…');
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const [user, pass] = [plain(url.username), plain(url.password)];
  const secure = url.protocol === 'smtps:';
  return {
    host,
    port: url.port === '' ? usual : Number(url.port),
    secure,
    requireTLS: !secure && !isLoopback(host),
    ...(user === '' ? {} : { auth: { user, pass } }),
  };
}

function plain(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refused('server: a % of user or password must be written %25');
  }
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));

/** Null without a server. Errors: WEBHOOKS_EMAIL. */
export function createMailer({ email, caFile }: Pick<WebhooksConfig, 'email' | 'caFile'>): Mailer | null {
  const { from } = email;
  if (email.server === null) return null;
  if (from === null) throw refused('from is not set');
  const server = serverOf(email.server);
  const ca = caFile === null ? {} : { ca: [...rootCertificates, readFileSync(caFile, 'utf8')] };
  let loading: Promise<Nodemailer> | null = null;
  const load = (): Promise<Nodemailer> => {
    loading ??= loadOptional<Nodemailer>(PACKAGE, [process.cwd()], refused);
    return loading;
  };
  return {
    async ready() {
      await load();
    },
    async send({ to, subject, text, id }, timeoutMs, signal) {
      const { createTransport } = await load();
      const transport = createTransport({
        ...server,
        tls: ca,
        connectionTimeout: timeoutMs,
        greetingTimeout: timeoutMs,
        socketTimeout: timeoutMs,
        // The text never names a file or an address to read.
        disableFileAccess: true,
        disableUrlAccess: true,
      });
      const close = () => transport.close();
      signal.addEventListener('abort', close, { once: true });
      try {
        await transport.sendMail({
          from,
          to: { name: '', address: to },
          subject,
          text,
          messageId: `<${id}@${from.slice(from.lastIndexOf('@') + 1)}>`,
          // No out-of-office reply answers it (RFC 3834).
          headers: { 'Auto-Submitted': 'auto-generated' },
        });
        return null;
      } catch (error) {
        return resultOf(error);
      } finally {
        signal.removeEventListener('abort', close);
        close();
      }
    },
  };
}

const PERMANENT = 500;

/** Says what went wrong by codes alone: the text of a server can repeat what it was sent. */
function resultOf(error: unknown): MailResult {
  const { code, responseCode } = error as { readonly code?: unknown; readonly responseCode?: unknown };
  const name = typeof code === 'string' ? code : 'failed';
  const status = typeof responseCode === 'number' ? responseCode : null;
  // A log-in or a server that is refused can be mended; an address or a message that is refused stays so.
  const isFinal = (name === 'EENVELOPE' || name === 'EMESSAGE') && status !== null && status >= PERMANENT;
  return { error: `e-mail: ${name}${status === null ? '' : ` ${status}`}`, isFinal };
}

/** One plain address: no names, lists, comments or quotes. */
const ADDRESS =
  /[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+/;
const MAX_ADDRESS = 254;

/** Pattern and length of `mailto:ada@example.org` or `ada@example.org`. */
export const MAIL_TEXT = {
  pattern: `^(?:[Mm][Aa][Ii][Ll][Tt][Oo]:)?${ADDRESS.source}$`,
  maxLength: 'mailto:'.length + MAX_ADDRESS,
} as const;
const MAIL = new RegExp(MAIL_TEXT.pattern);

/** The address in `mailto:ada@example.org` or `ada@example.org`; null if it is none. */
export function addressOfMail(text: string): string | null {
  const address = text.replace(/^mailto:/i, '');
  return address.length <= MAX_ADDRESS && MAIL.test(text) ? address : null;
}
