import { isObject } from '../json.ts'

/** A body as it is sent. */
interface EncodedBody {
  readonly body: string
  readonly isForm?: boolean
}

/** JSON, or a form where the endpoint says so. */
export const encodeBody = (value: unknown, { form }: { readonly form?: boolean | undefined }): EncodedBody =>
  form === true ? { body: encodeForm(value), isForm: true } : { body: JSON.stringify(value) }

/**
 * The text of a form (application/x-www-form-urlencoded): a field for each value, and one for each item of a list. Null
 * and undefined are left out.
 * @throws TypeError for what a form cannot hold
 * @example encodeForm({ email: ['a@x.example', 'b@x.example'], full: true })
 */
function encodeForm(value: unknown): string {
  if (!isObject(value)) throw new TypeError('a form is made of an object, such as { email: input.email }')
  const fields = new URLSearchParams()
  for (const [name, content] of Object.entries(value))
    for (const one of Array.isArray(content) ? content : [content]) {
      if (one === null || one === undefined) continue
      if (typeof one === 'object' || typeof one === 'function')
        throw new TypeError(`a form has flat values: \`${name}\` holds ${describeHeld(one)}`)
      fields.append(name, String(one))
    }
  return fields.toString()
}

const describeHeld = (value: object): string =>
  Array.isArray(value) ? 'a list in a list' : typeof value === 'function' ? 'a function' : 'an object'
