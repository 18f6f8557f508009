/** Names of members, methods and types in the spelling of a language. Words begin at capitals and at what is neither letter nor digit. */

function words(name: string): readonly string[] {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '');
}

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** An identifier cannot begin with a digit. */
const begun = (name: string): string => (/^[A-Za-z_]/.test(name) ? name : `n${name}`);

/** `webhookID` becomes `WebhookID`: capitals stay as they are. */
export const pascal = (name: string): string => capital(begun(words(name).map(capital).join('')));

export function camel(name: string): string {
  const whole = pascal(name);
  return whole.charAt(0).toLowerCase() + whole.slice(1);
}

export const snake = (name: string): string =>
  begun(
    words(name)
      .map((word) => word.toLowerCase())
      .join('_'),
  );

/** Gives each name once; the next one gets a number. Names that are taken from the start are never given. */
export function uniqueNames(taken: Iterable<string> = []): (wanted: string) => string {
  const used = new Set(taken);
  return (wanted) => {
    let name = wanted;
    for (let number = 2; used.has(name); number += 1) name = `${wanted}${number}`;
    used.add(name);
    return name;
  };
}
