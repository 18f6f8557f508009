import { refuseTooMany } from '../input/fields.ts';
import { insertAddresses, keyText, presentAddresses, removeAddresses, updateHook } from '../store/hooks.ts';
import { type ManageContext, maxAddresses, writeHook } from './context.ts';

export interface AddressChange {
  readonly webhookID: string;
  readonly changed: number;
  readonly unchanged: number;
  readonly addressCount: number;
}

/** Adds addresses behind the present ones. Errors: 400 (nothing is changed then), 404. */
export function addAddresses(
  context: ManageContext,
  projectId: string,
  id: string,
  keys: readonly Uint8Array[],
): Promise<AddressChange> {
  return writeHook(context, projectId, id, async ({ tx, db, hook, now, record }) => {
    const present = await presentAddresses(db, hook.number, keys);
    const fresh = keys.filter((key) => !present.has(keyText(key)));
    const addressCount = hook.addressCount + fresh.length;
    refuseTooMany(addressCount, await maxAddresses(context, db, projectId));
    if (fresh.length > 0) {
      await insertAddresses(tx, hook.number, fresh, hook.nextPosition);
      const nextPosition = hook.nextPosition + fresh.length;
      await updateHook(db, hook.number, { addressCount, nextPosition, updatedAt: now });
    }
    await record([], fresh);
    return { webhookID: hook.id, changed: fresh.length, unchanged: present.size, addressCount };
  });
}

/** Takes addresses away; ones that are not there are only counted. Errors: 404. */
export function dropAddresses(
  context: ManageContext,
  projectId: string,
  id: string,
  keys: readonly Uint8Array[],
): Promise<AddressChange> {
  return writeHook(context, projectId, id, async ({ db, hook, now, record }) => {
    const present = await presentAddresses(db, hook.number, keys);
    const gone = keys.filter((key) => present.has(keyText(key)));
    const addressCount = hook.addressCount - gone.length;
    if (gone.length > 0) {
      await removeAddresses(db, hook.number, gone);
      await updateHook(db, hook.number, { addressCount, updatedAt: now });
    }
    await record(gone, []);
    return { webhookID: hook.id, changed: gone.length, unchanged: keys.length - gone.length, addressCount };
  });
}
