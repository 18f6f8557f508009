import type { WebhookType } from '../model/webhook.ts';

/** What the elements of a body look like. */
export const BODY_FORMS = ['raw', 'enhanced', 'discord'] as const;
export type BodyForm = (typeof BODY_FORMS)[number];

/** The form of a type, which is the same on all chains. */
export function formOf(type: WebhookType): BodyForm {
  if (type.startsWith('enhanced')) return 'enhanced';
  return type.startsWith('discord') ? 'discord' : 'raw';
}
