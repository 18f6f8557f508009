import { codeOf } from '../../src/lib/coded-error.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import type { OutboundClient } from '../../src/ports/outbound.ts';
import type { Question } from './calls.ts';
import { type AnswerText, errorOf, type ReadAnswer, readAnswer } from './compare.ts';
import type { ShadowConfig } from './config.ts';

/**
 * What the reference said. `busy`: it limits us; `broken`: it does not answer, or not with an answer to the question; `large`: its answer is
 * longer than is compared.
 */
export type ReferenceReply =
  | {
      readonly kind: 'answer';
      readonly answer: AnswerText;
      /** Null: it takes several times the memory of the text, and waits. */
      readonly read: ReadAnswer | null;
      readonly bytes: number;
    }
  | { readonly kind: 'busy' | 'broken' | 'large'; readonly reason: string; readonly bytes: number };

export interface Reference {
  /** Whether it has such an address at all. */
  has(kind: Question['kind']): boolean;
  /** Asks with the key of the reference. Never throws. */
  ask(question: Question, signal: AbortSignal, timeoutMs?: number): Promise<ReferenceReply>;
  /** Bytes that a question sends. */
  sizeOf(question: Question): number;
}

const RATE_CODES = new Set([-32_005, -32_429]);
const HEAD_BYTES = 512;

export function createReference(config: ShadowConfig, client: () => OutboundClient): Reference {
  const { reference } = config;
  const addressOf = (question: Question): string | null => {
    const base = question.kind === 'rpc' ? reference.url : reference.restUrl;
    if (base === null) return null;
    const url = new URL(base);
    if (question.kind === 'rest') {
      const [path, query] = splitTarget(question.target);
      url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`;
      for (const [name, value] of new URLSearchParams(query)) url.searchParams.append(name, value);
    }
    if (reference.apiKey !== null) url.searchParams.set('api-key', reference.apiKey);
    return url.href;
  };
  const bodyOf = (question: Question): Buffer | null =>
    question.kind === 'rpc' ? Buffer.from(question.body) : question.body;

  return {
    has: (kind) => (kind === 'rpc' ? reference.url : reference.restUrl) !== null,
    sizeOf: (question) => (bodyOf(question)?.length ?? 0) + HEAD_BYTES,
    async ask(question, signal, timeoutMs = reference.timeoutMs) {
      const url = addressOf(question);
      const body = bodyOf(question);
      if (url === null) return { kind: 'broken', reason: 'no address', bytes: 0 };
      const sent = (body?.length ?? 0) + HEAD_BYTES;
      try {
        const {
          status,
          body: bytes,
          truncated,
        } = await client().request({
          method: question.kind === 'rpc' ? 'POST' : question.method,
          url,
          headers: body === null ? {} : { 'content-type': 'application/json' },
          ...(body === null ? {} : { body }),
          timeoutMs,
          keepBytes: config.maxBodyBytes,
          maxBytes: config.maxBodyBytes,
          signal,
        });
        const used = sent + bytes.length;
        if (truncated) return { kind: 'large', reason: 'the answer is too long', bytes: used };
        return judge({ status, text: bytes.toString() }, question, used);
      } catch (error) {
        const code = codeOf(error) ?? 'failed';
        // What arrived until then is unknown, but not more than this.
        if (code === 'OUTBOUND_TOO_LARGE')
          return { kind: 'large', reason: 'the answer is too long', bytes: sent + config.maxBodyBytes };
        return { kind: 'broken', reason: code, bytes: sent + config.maxBodyBytes };
      }
    },
  };
}

/** Whether it is an answer to the question, or only says that the reference has none now. */
function judge(answer: AnswerText, question: Question, bytes: number): ReferenceReply {
  const { status } = answer;
  if (status === 429) return { kind: 'busy', reason: 'HTTP 429', bytes };
  const read = readAnswer(answer);
  const error = errorOf(read);
  if (error !== null && RATE_CODES.has(error.code)) return { kind: 'busy', reason: `code ${error.code}`, bytes };
  if (status >= 500 || status === 401 || status === 403 || (status >= 300 && status < 400))
    return { kind: 'broken', reason: `HTTP ${status}`, bytes };
  if (question.kind === 'rpc' && !isEnvelope(read.value)) {
    if (read.value === undefined && status === 200) return { kind: 'answer', answer, read, bytes };
    return { kind: 'broken', reason: 'no JSON-RPC answer', bytes };
  }
  return { kind: 'answer', answer, read, bytes };
}

const isEnvelope = (value: unknown): boolean => isPlainObject(value) && ('result' in value || 'error' in value);

function splitTarget(target: string): readonly [path: string, query: string] {
  const mark = target.indexOf('?');
  return mark < 0 ? [target, ''] : [target.slice(0, mark), target.slice(mark + 1)];
}
