// What the words of a column's name say beside those that name a role.

/** Whatever else it says, a column with one of these words holds something about the thing, not the thing. */
export const OTHER_THINGS = new Set(
  `id ids uuid at count counts hash token is has verified valid invalid status type kind flag label labels opt out optin
   bounced bounce template subject body sent created updated modified deleted by source format log image logo file avatar photo
   picture icon currency extension ext calling fax code codes prefix suffix salutation followers connections headline score
   rank manager assistant owner recruiter referrer referral creator author sender recipient reply cc bcc spouse emergency
   previous former old birth born place recurring forecast expected lifetime target quota password reset
   consent preference preferences frequency note notes description comment comments handle username
   facebook instagram github skype xing blog search vector timezone zone locale lang language index tax vat
   street zip postal postcode lat latitude lng longitude geo distance rating confidence enriched`
    .split(/\s+/)
    .filter((word) => word !== ''),
)

/** Say only which one, and that it is the usual one. */
export const NEUTRAL = new Set(
  `primary main work business contact person people customer client lead company account organization the x custom default
   current address link links url number no num of value text raw name emails attributes properties data fields profile
   job direct office hq headquarters head annual yearly amount usd eur micros cents in million range band list page web
   partner member details info 1`
    .split(/\s+/)
    .filter((word) => word !== ''),
)

/** There is a better one where there are two. */
export const SECOND = new Set(
  `secondary alternate alternative alt other additional second home private personal shipping mailing delivery visiting
   mobile cell invoice registered lower normalized canonical original 2 3 4 5`
    .split(/\s+/)
    .filter((word) => word !== ''),
)
