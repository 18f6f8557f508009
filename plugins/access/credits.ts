/**
 * Credits of a daemon with several processes of the API. The main process knows what is left; the others ask it before a call, so that together
 * they answer no more calls than there are credits for. What a process took counts in the main one until the usage of it is in the store.
 */
import type { Clock } from '../../src/plugin/plugin.ts';
import type { ApiPeers } from '../../src/ports/processes.ts';
import { affordable, isAtRest, type ProjectAccount, type Spent, takeState, totalOf, turnDay } from './account.ts';

/** Usage of a project in its newest cycle, as stored. */
export interface StoredUsage {
  readonly cycleStart: string;
  readonly spent: Spent;
}

/** Credits in a further process of the API: it spends advances of the main process. */
export interface CreditLoan {
  /** Takes the credits of a call. False: they are not left. */
  take(projectId: string, credits: number): boolean | Promise<boolean>;
  /** Returns what a call did not cost. */
  giveBack(projectId: string, credits: number): void;
  /** A call was charged. */
  charged(projectId: string, credits: number): void;
  /** Usage was written; `usage`: of all processes, after it. */
  written(projectId: string, credits: number, usage: StoredUsage): void;
  stop(): void;
}

/** If less than this is left of the period (credits), no advances are given: each call is counted in the main process. */
const MIN_FOR_ADVANCE = 1_000;
/** All advances are at most about one eighth of what is left. */
const ADVANCE_PART = 8;
/** What is left of an advance goes back after this time. */
const ADVANCE_MS = 100;
/** How long a report waits for a write of the main process to end. */
const RETRY_MS = 10;

type CreditQuestion =
  | { readonly take: number; readonly projectId: string; readonly from: string }
  | { readonly back: number; readonly projectId: string; readonly from: string }
  | {
      readonly written: number;
      readonly projectId: string;
      readonly from: string;
      readonly cycleStart: string;
      /** Millionths, which a message has no number for. */
      readonly spent: { readonly regular: string; readonly prepaid: string; readonly prepaidLeft: string };
    }
  /** The process has started: what it held in an earlier life is gone. */
  | { readonly started: true; readonly from: string };

interface CreditAdvance {
  readonly advance: number;
}

/** Credits in the main process, which answers the others. `find`: null for a project that does not exist. */
export function lendCredits(
  { answer, count }: Pick<ApiPeers, 'answer' | 'count'>,
  clock: Clock,
  find: (projectId: string) => ProjectAccount | null | Promise<ProjectAccount | null>,
): void {
  /** What each process holds. */
  const lentTo = new Map<string, Map<ProjectAccount, number>>();

  function hold(account: ProjectAccount, from: string, credits: number): void {
    const own = lentTo.get(from) ?? new Map<ProjectAccount, number>();
    lentTo.set(from, own);
    // Not below zero: what a process held in an earlier life is forgotten.
    const held = Math.max(0, (own.get(account) ?? 0) + credits);
    account.lentCredits += held - (own.get(account) ?? 0);
    if (held === 0) own.delete(account);
    else own.set(account, held);
  }

  function lend(account: ProjectAccount, from: string, credits: number): CreditAdvance | null {
    turnDay(account, clock.now());
    if (account.isDisabled || credits > affordable(account)) return null;
    const left = affordable(account) - credits;
    const advance = left < MIN_FOR_ADVANCE ? 0 : Math.floor(left / (ADVANCE_PART * (count - 1)));
    hold(account, from, credits + advance);
    return { advance };
  }

  async function learn(account: ProjectAccount, question: Extract<CreditQuestion, { written: number }>): Promise<void> {
    // A write in flight may be part of what the other process has read.
    while (!isAtRest(account)) await clock.sleep(RETRY_MS);
    const { cycleStart } = question;
    const spent: Spent = {
      regular: BigInt(question.spent.regular),
      prepaid: BigInt(question.spent.prepaid),
      prepaidLeft: BigInt(question.spent.prepaidLeft),
    };
    const { known } = account;
    const isNewer = cycleStart > known.cycleStart || (cycleStart === known.cycleStart && totalOf(spent) > known.total);
    const { projectId, isDisabled, limits, billingDay } = account;
    if (isNewer) takeState(account, { projectId, isDisabled, limits, billingDay, cycleStart, spent }, clock.now());
    hold(account, question.from, -question.written);
  }

  answer('credits', async (message) => {
    const question = message as CreditQuestion;
    if ('started' in question) {
      for (const [account, held] of lentTo.get(question.from) ?? []) account.lentCredits -= held;
      lentTo.delete(question.from);
      return null;
    }
    const account = await find(question.projectId);
    if (account === null) return null;
    if ('take' in question) return lend(account, question.from, question.take);
    if ('back' in question) hold(account, question.from, -question.back);
    else await learn(account, question);
    return null;
  });
}

interface BorrowedCredits {
  readonly projectId: string;
  /** Taken and not used. */
  advance: number;
  isUsed: boolean;
  /** Charged and not written. */
  unwritten: number;
}

/** Credits in a further process of the API. */
export function borrowCredits({ askMain, name }: Pick<ApiPeers, 'askMain' | 'name'>, clock: Clock): CreditLoan {
  const loans = new Map<string, BorrowedCredits>();
  const started = askMain('credits', { started: true, from: name } satisfies CreditQuestion).catch(() => undefined);
  let cancel: (() => void) | null = null;

  function loanOf(projectId: string): BorrowedCredits {
    const loan = loans.get(projectId) ?? { projectId, advance: 0, isUsed: false, unwritten: 0 };
    loans.set(projectId, loan);
    return loan;
  }

  const tell = (question: CreditQuestion) => void askMain('credits', question).catch(() => undefined);

  async function ask(projectId: string, credits: number): Promise<boolean> {
    await started;
    const lent = (await askMain('credits', {
      take: credits,
      projectId,
      from: name,
    } satisfies CreditQuestion)) as CreditAdvance | null;
    if (lent === null) return false;
    if (lent.advance > 0) {
      const loan = loanOf(projectId);
      loan.advance += lent.advance;
      loan.isUsed = true;
      cancel ??= clock.timeout(ADVANCE_MS, returnUnused);
    }
    return true;
  }

  function returnUnused(): void {
    cancel = null;
    let isHeld = false;
    for (const loan of loans.values()) {
      if (loan.advance > 0 && !loan.isUsed) {
        tell({ back: loan.advance, projectId: loan.projectId, from: name });
        loan.advance = 0;
      }
      loan.isUsed = false;
      isHeld ||= loan.advance > 0;
      if (loan.advance === 0 && loan.unwritten === 0) loans.delete(loan.projectId);
    }
    if (isHeld) cancel = clock.timeout(ADVANCE_MS, returnUnused);
  }

  return {
    take(projectId, credits) {
      const loan = loans.get(projectId);
      if (loan === undefined || loan.advance < credits) return ask(projectId, credits);
      loan.advance -= credits;
      loan.isUsed = true;
      return true;
    },
    giveBack(projectId, credits) {
      if (credits > 0) tell({ back: credits, projectId, from: name });
    },
    charged(projectId, credits) {
      if (credits > 0) loanOf(projectId).unwritten += credits;
    },
    written(projectId, credits, { cycleStart, spent }) {
      const loan = loans.get(projectId);
      const written = Math.min(credits, loan?.unwritten ?? 0);
      if (loan === undefined || written === 0) return;
      loan.unwritten -= written;
      if (loan.advance === 0 && loan.unwritten === 0) loans.delete(projectId);
      const { regular, prepaid, prepaidLeft } = spent;
      tell({
        written,
        projectId,
        from: name,
        cycleStart,
        spent: { regular: String(regular), prepaid: String(prepaid), prepaidLeft: String(prepaidLeft) },
      });
    },
    stop: () => cancel?.(),
  };
}
