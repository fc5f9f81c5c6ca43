// `/assets/uplot.js` is the package's own module, under the address at which a browser finds it.
export { default } from 'uplot'
