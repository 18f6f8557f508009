import type { Clock, Product } from '../../src/plugin/plugin.ts';
import type { AccessCharges, Charge } from '../../src/ports/access.ts';
import { type Account, affordable, turnDay } from './account.ts';
import type { Directory } from './directory.ts';
import { createAdmission } from './gate.ts';
import type { Meter } from './meter.ts';
import { countCall } from './write-batch.ts';

export interface ChargesParts {
  readonly directory: Pick<Directory, 'project'>;
  readonly meter: Pick<Meter, 'note'>;
  readonly clock: Clock;
}

const FREE: Charge = { finish: () => undefined };

/** Credits for work without a request: reserved, counted and written like those of requests. */
export function createCharges({ directory, meter, clock }: ChargesParts): AccessCharges {
  /** Lookups in flight: many deliveries of a project start at once. */
  const asking = new Map<string, Promise<Account | null>>();

  function accountOf(projectId: string): Account | null | Promise<Account | null> {
    const running = asking.get(projectId);
    if (running !== undefined) return running;
    const found = directory.project(projectId);
    if (!(found instanceof Promise)) return found;
    const answer = found.finally(() => asking.delete(projectId));
    asking.set(projectId, answer);
    return answer;
  }

  return {
    async reserve(projectId, { product, credits, count }) {
      const account = await accountOf(projectId);
      if (account === null) return FREE;
      turnDay(account, clock.now());
      const reserved = credits * count;
      if (account.isDisabled || reserved > affordable(account)) return null;
      const price = { product: product as Product, credits, groups: [] };
      const items = Array.from({ length: count }, () => ({ name: product, price, permission: undefined }));
      const ticket = { account, items, headers: {}, reserved, isWaived: false };
      const admission = createAdmission(ticket, clock.now, meter.note);
      return {
        finish: (charged) => admission.charge(items.map(() => ({ charged, bytesOut: 0 }))),
      };
    },
    stream(projectId, { product, creditsPerByte }) {
      /** Undefined: not read yet. Null: the project does not exist. */
      let account: Account | null | undefined;
      return {
        affords(bytes, credits = 0) {
          if (account === undefined || account === null) return account === null;
          turnDay(account, clock.now());
          const cost = bytes * creditsPerByte + credits;
          return !account.isDisabled && (cost === 0 || cost <= affordable(account));
        },
        count(bytes, credits = 0) {
          if (account === undefined || account === null) return;
          turnDay(account, clock.now());
          countCall(account, product as Product, {
            credits: bytes * creditsPerByte + credits,
            bytes,
            isRequest: false,
          });
          meter.note(account);
        },
        async refresh() {
          account = await accountOf(projectId);
        },
      };
    },
    async isDisabled(projectId) {
      return (await accountOf(projectId))?.isDisabled ?? false;
    },
    async left(projectId) {
      const account = await accountOf(projectId);
      if (account === null) return Number.POSITIVE_INFINITY;
      turnDay(account, clock.now());
      return account.isDisabled ? 0 : Math.max(0, affordable(account));
    },
  };
}
