/**
 * Compares a share of the answers with those of the reference. A chosen request waits in a bounded queue; none of it delays an answer, and what
 * does not fit, in number, bytes or budget, is skipped and counted by its reason.
 */
import type { Clock, Log, Metrics, Random } from '../../src/plugin/plugin.ts';
import type { AnswerTap, TappedRequest, Tapping, WholeAnswer } from '../../src/ports/answer-tap.ts';
import type { Priced } from '../../src/ports/daemon-view.ts';
import type { Budget } from './budget.ts';
import { type ComparedCall, callsOf, isComparedRoute, questionOf, RPC_NAME } from './calls.ts';
import { compareAnswers, type ReadAnswer, readAnswer } from './compare.ts';
import type { ShadowConfig } from './config.ts';
import { explain } from './explain.ts';
import type { Reference, ReferenceReply } from './reference.ts';
import type { ExplainedDifference, Outcome, Results } from './results.ts';
import { rulesOf } from './rules.ts';

export interface ShadowParts {
  readonly config: ShadowConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly budget: Budget;
  readonly reference: Reference;
  readonly results: Results;
  priceOf(name: string): Priced;
}

export interface Shadow extends AnswerTap {
  /** Waits until nothing waits or runs. */
  idle(): Promise<void>;
  stop(): void;
}

type SkipReason = 'full' | 'memory' | 'long' | 'budget' | 'product' | 'unanswered';

/** A chosen request. */
interface Work {
  readonly request: TappedRequest;
  readonly ours: WholeAnswer;
  /** What the reference has said already, with `answers: reference`. */
  readonly reply: ReferenceReply | null;
  readonly bytes: number;
}

export function createShadow(parts: ShadowParts): Shadow {
  const { config, clock, random, log, metrics, budget, reference, results } = parts;
  const compared = metrics.counter('compared_total', 'compared answers by product and outcome', ['product', 'outcome']);
  const skippedTotal = metrics.counter('skipped_total', 'chosen requests that were not compared, by reason', [
    'reason',
  ]);
  const replies = metrics.counter('reference_replies_total', 'replies of the reference by kind', ['kind']);
  const stopping = new AbortController();
  const waiting: Work[] = [];
  const idlers = new Set<() => void>();
  let running = 0;
  let heldBytes = 0;
  metrics.observe('waiting_requests', 'chosen requests that wait for the reference', () => waiting.length);
  metrics.observe('held_bytes', 'bytes of requests and answers that wait or are compared', () => heldBytes);

  const skip = (reason: SkipReason): void => {
    skippedTotal.with(reason).add();
  };

  const shareOf = (name: string): number =>
    config.shares[name] ?? config.shares[parts.priceOf(name).product] ?? config.share;
  const greatestShare = (): number => Math.max(config.share, ...Object.values(config.shares));
  /** For JSON-RPC the method is not known when the request is drawn: the second draw makes up the difference. */
  const drawsMethod = (method: string): boolean => {
    const most = greatestShare();
    return most > 0 && random.float() < shareOf(method) / most;
  };

  function enqueue(work: Work): void {
    if (stopping.signal.aborted) return;
    const isFull = waiting.length >= config.maxWaiting;
    if (isFull || heldBytes + work.bytes > config.maxBytesInMemory) {
      skip(isFull ? 'full' : 'memory');
      return;
    }
    heldBytes += work.bytes;
    waiting.push(work);
    // After the answer has left.
    setImmediate(pump);
  }

  function pump(): void {
    while (running < config.maxConcurrent) {
      const work = waiting.shift();
      if (work === undefined) break;
      running += 1;
      compareRequest(work)
        .catch((error: unknown) => log.warn({ err: error }, 'an answer could not be compared'))
        .finally(() => {
          running -= 1;
          heldBytes -= work.bytes;
          pump();
        });
    }
    if (running === 0 && waiting.length === 0) for (const wake of idlers) wake();
  }

  async function compareRequest({ request, ours, reply }: Work): Promise<void> {
    const calls = callsOf(request, ours);
    for (const call of calls) {
      if (stopping.signal.aborted) return;
      if (request.name === RPC_NAME && reply === null && !drawsMethod(call.name)) continue;
      await compareCall(call, reply);
    }
  }

  async function compareCall(call: ComparedCall, given: ReferenceReply | null): Promise<void> {
    const { product } = parts.priceOf(call.name);
    const reply = given ?? (await ask(call));
    if (reply === null) return;
    if (reply.kind !== 'answer') {
      skip(reply.kind === 'large' ? 'long' : 'unanswered');
      if (reply.kind !== 'large') count(call.name, product, 'unanswered');
      return;
    }
    const ours = readAnswer(call.ours);
    let theirs = reply.answer;
    let differences = differencesOf(call.name, ours, readReply(reply));
    if (differences.some(({ reason }) => reason === '')) {
      await clock.sleep(config.recheckMs, stopping.signal);
      const again = await ask(call);
      if (again !== null && again.kind === 'answer') {
        const later = differencesOf(call.name, ours, readReply(again));
        if (later.length === 0) differences = differences.map((one) => ({ ...one, reason: one.reason || 'lag' }));
        else if (!later.some(({ reason }) => reason === '')) {
          differences = later;
          theirs = again.answer;
        }
      }
    }
    const outcome = outcomeOf(differences);
    count(call.name, product, outcome);
    if (outcome === 'equal') return;
    const { question } = call;
    const text = question.kind === 'rpc' ? question.body : `${question.target}\n${question.body ?? ''}`;
    results.note({ method: call.name, product, question: text, ours: call.ours, theirs, differences });
  }

  function count(method: string, product: string, outcome: Outcome): void {
    compared.with(product, outcome).add();
    results.count(method, product, outcome);
  }

  function differencesOf(name: string, ours: ReadAnswer, theirs: ReadAnswer): readonly ExplainedDifference[] {
    const rules = rulesOf(name, config.ignore);
    return compareAnswers(ours, theirs, rules, config.maxSlotDistance).map((difference) => ({
      ...difference,
      reason: explain(name, difference, ours, theirs),
    }));
  }

  /** Null: it was not asked. */
  async function ask(
    { name, question }: Pick<ComparedCall, 'name' | 'question'>,
    timeoutMs?: number,
  ): Promise<ReferenceReply | null> {
    const { product, credits } = parts.priceOf(name);
    const products: readonly string[] = config.reference.products;
    if (!reference.has(question.kind) || !products.includes(product)) {
      skip('product');
      return null;
    }
    const bytes = reference.sizeOf(question) + config.maxBodyBytes;
    if (!(await budget.take({ requests: 1, credits, bytes }))) {
      skip('budget');
      return null;
    }
    const reply = await reference.ask(question, stopping.signal, timeoutMs);
    budget.giveBack(bytes - reply.bytes);
    replies.with(reply.kind).add();
    return reply;
  }

  /** The answer of the reference for the client; null: ours is sent. */
  function askInstead(request: TappedRequest): { readonly reply: Promise<ReferenceReply | null> } | null {
    if (config.answers !== 'reference') return null;
    const call = questionOf(request);
    if (call === null || (request.name === RPC_NAME && !drawsMethod(call.name))) return null;
    return { reply: ask(call, config.answerWithinMs) };
  }

  return {
    wants: (name) => {
      if (!isComparedRoute(name) || stopping.signal.aborted) return false;
      return random.float() < (name === RPC_NAME ? greatestShare() : shareOf(name));
    },
    begin(request): Tapping | null {
      const bodyBytes = request.body?.length ?? 0;
      if (bodyBytes > config.maxBodyBytes) {
        skip('long');
        return null;
      }
      if (waiting.length >= config.maxWaiting) {
        skip('full');
        return null;
      }
      const first = askInstead(request);
      const answered = (ours: WholeAnswer | null, reply: ReferenceReply | null) => {
        if (ours === null) skip('long');
        else {
          // Theirs is about as long as ours, until it is known.
          const theirBytes = reply === null ? ours.body.length : reply.kind === 'answer' ? reply.bytes : 0;
          const held = reply?.kind === 'answer' ? { ...reply, read: null } : reply;
          enqueue({ request, ours, reply: held, bytes: bodyBytes + ours.body.length + theirBytes });
        }
      };
      return {
        maxAnswerBytes: config.maxBodyBytes,
        instead: first === null ? null : first.reply.then(wholeOf, () => null),
        answered: (ours) => {
          if (first === null) answered(ours, null);
          else void first.reply.then((reply) => reply !== null && answered(ours, reply)).catch(() => undefined);
        },
      };
    },
    idle: () =>
      new Promise((resolve) => {
        if (running === 0 && waiting.length === 0) return resolve();
        const wake = () => {
          idlers.delete(wake);
          resolve();
        };
        idlers.add(wake);
      }),
    stop() {
      stopping.abort(new Error('the daemon is stopping'));
      waiting.length = 0;
    },
  };
}

const readReply = ({ answer, read }: Extract<ReferenceReply, { kind: 'answer' }>): ReadAnswer =>
  read ?? readAnswer(answer);

function wholeOf(reply: ReferenceReply | null): WholeAnswer | null {
  return reply?.kind === 'answer' ? { status: reply.answer.status, body: reply.answer.text } : null;
}

function outcomeOf(differences: readonly ExplainedDifference[]): Outcome {
  if (differences.length === 0) return 'equal';
  return differences.every(({ reason }) => reason !== '') ? 'explained' : 'different';
}
